"""`corral admin quota`."""

from typing import Annotated, Any

import typer
from corral.accounts import GpuQuota, QuotaSpec, QuotaView
from corral.cli.account import print_quota
from corral.cli.options import AsJson, TenantRef, connect, pairs, read, tenant_id
from corral.cli.output import print_json
from corral.quantities import duration_text

UNLIMITED = "unlimited"

app = typer.Typer(no_args_is_help=True, help="What a tenant may use.")


@app.command("show")
def show_quota(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Show a tenant's quota, and what is used of it."""
    with connect() as client:
        _print(client.tenant_quota(tenant_id(client, tenant)), as_json)


@app.command("set")
def set_quota(
    tenant: TenantRef,
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL=N",
            help="Most GPUs at once. MODEL * bounds all together and is 0 at first; N may be unlimited; repeat.",
        ),
    ] = None,
    no_gpus: Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Take the model's row away.")] = None,
    most_queued: Annotated[int | None, typer.Option(help="Most jobs that wait.")] = None,
    most_running: Annotated[int | None, typer.Option(help="Most jobs that run.")] = None,
    time_limit: Annotated[str | None, typer.Option(help="Longest time limit of a job.")] = None,
    priority: Annotated[str | None, typer.Option(help="Highest priority.")] = None,
    isolation: Annotated[list[str] | None, typer.Option(help="An allowed level; repeat.")] = None,
    image: Annotated[list[str] | None, typer.Option(help="An allowed image; repeat.")] = None,
    all_images: Annotated[bool, typer.Option("--all-images", help="Allow the whole catalogue.")] = False,
    as_json: AsJson = False,
) -> None:
    """Change a tenant's quota; what is not named stays as it is."""
    limits = read(lambda: {model: _limit(text) for model, text in pairs(gpus or (), "MODEL=N").items()})
    said: dict[str, Any] = {
        "most_queued": most_queued, "most_running": most_running, "longest_time_limit": time_limit,
        "highest_priority": priority, "isolation_levels": isolation, "images": image,
    }  # fmt: skip
    with connect() as client:
        of = tenant_id(client, tenant)
        fields = _fields(client.tenant_quota(of)) | {name: value for name, value in said.items() if value is not None}
        if all_images:
            fields["images"] = None
        rows = {**fields["gpus"], **limits}
        kept = {model: limit for model, limit in rows.items() if model not in (no_gpus or ())}
        fields["gpus"] = read(lambda: [GpuQuota(model=model, limit=limit) for model, limit in kept.items()])
        _print(client.set_tenant_quota(of, read(lambda: QuotaSpec(**fields))), as_json)


def _fields(view: QuotaView) -> dict[str, Any]:
    """The quota as it is, in the form in which it is set."""
    return {
        "gpus": {row.model: row.limit for row in view.gpus},
        "most_queued": view.most_queued,
        "most_running": view.most_running,
        "longest_time_limit": duration_text(view.longest_time_limit),
        "highest_priority": view.highest_priority,
        "isolation_levels": view.isolation_levels,
        "images": view.images,
    }


def _limit(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is neither a number nor {UNLIMITED!r}")
    return int(text)


def _print(view: QuotaView, as_json: bool) -> None:
    print_json(view) if as_json else print_quota(view)
