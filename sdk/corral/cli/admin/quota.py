"""`corral admin quota`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from corral.cli.numbers import moment_text, money_micro
from corral.cli.options import AsJson, TenantRef, connect, pairs, read, tenant_id
from corral.cli.output import print_fields, print_json, print_line, print_table
from corral.cli.quota import END_HELP, RequestId, end_us, print_quota, print_request
from corral.client import Client
from corral.quotas import (
    GpuQuota,
    PreviewedJob,
    QuotaGrantSpec,
    QuotaPreview,
    QuotaPreviewSpec,
    QuotaRefusal,
    QuotaSpec,
    QuotaView,
)

UNLIMITED = "unlimited"
RULES = {
    "most-queued": "most_queued",
    "most-running": "most_running",
    "time-limit": "longest_time_limit",
    "priority": "highest_priority",
    "isolation": "isolation_levels",
    "images": "images",
    "gpu-hours": "gpu_hours_per_month",
    "money": "money_micro_per_month",
}
"""Rules that can be left to the tenant above, by the options that set them."""

Gpus = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODEL=N",
        help="Most GPUs at once. MODEL * bounds all together and is 0 at first; N may be unlimited; repeat.",
    ),
]
Guaranteed = Annotated[list[str] | None, typer.Option(metavar="MODEL=N", help="Its own share; repeat.")]
Borrowable = Annotated[
    list[str] | None, typer.Option(metavar="MODEL=N", help="Most beyond its share, or unlimited; repeat.")
]
Lendable = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL=N", help="How much of its share others may use meanwhile, or unlimited; repeat."),
]
NoGpus = Annotated[list[str] | None, typer.Option(metavar="MODEL", help="Take the model's row away; repeat.")]
MostQueued = Annotated[int | None, typer.Option(help="Most jobs that wait.")]
MostRunning = Annotated[int | None, typer.Option(help="Most jobs that run.")]
TimeLimit = Annotated[str | None, typer.Option(help="Longest time limit of a job.")]
Priority = Annotated[str | None, typer.Option(help="Highest priority.")]
Isolation = Annotated[list[str] | None, typer.Option(help="An allowed level; repeat.")]
Image = Annotated[list[str] | None, typer.Option(help="An allowed image; repeat.")]
GpuHours = Annotated[int | None, typer.Option(help="Most GPU-hours in a calendar month.")]
Money = Annotated[str | None, typer.Option(help="Most money in a calendar month, such as 2500.00.")]
AllImages = Annotated[bool, typer.Option("--all-images", help="Allow all that the tenant above may use.")]
Inherit = Annotated[
    list[str] | None,
    typer.Option(metavar="RULE", help=f"Leave a rule to the tenant above: {', '.join(RULES)}; repeat."),
]

app = typer.Typer(no_args_is_help=True, help="What a tenant may use.")


@app.command("show")
def show_quota(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Show a tenant's quota, and what is used of it."""
    with connect() as client:
        _print(client.tenant_quota(tenant_id(client, tenant)), as_json)


@app.command("set")
def set_quota(
    tenant: TenantRef,
    gpus: Gpus = None,
    guaranteed: Guaranteed = None,
    borrowable: Borrowable = None,
    lendable: Lendable = None,
    no_gpus: NoGpus = None,
    most_queued: MostQueued = None,
    most_running: MostRunning = None,
    time_limit: TimeLimit = None,
    priority: Priority = None,
    isolation: Isolation = None,
    image: Image = None,
    gpu_hours: GpuHours = None,
    money: Money = None,
    all_images: AllImages = False,
    inherit: Inherit = None,
    as_json: AsJson = False,
) -> None:
    """Change a tenant's quota; what is not named stays as it is."""
    rows = _rows(gpus, guaranteed, borrowable, lendable)
    rules = _rules(most_queued, most_running, time_limit, priority, isolation, image, gpu_hours, _money(money))
    dropped = _dropped(inherit, all_images)
    with connect() as client:
        of, spec, version = _changed(client, tenant, rows, no_gpus or (), rules, dropped)
        _print(client.set_tenant_quota(of, spec, version=version), as_json)


@app.command("preview")
def preview_quota(
    tenant: TenantRef,
    gpus: Gpus = None,
    guaranteed: Guaranteed = None,
    borrowable: Borrowable = None,
    lendable: Lendable = None,
    no_gpus: NoGpus = None,
    most_queued: MostQueued = None,
    most_running: MostRunning = None,
    time_limit: TimeLimit = None,
    priority: Priority = None,
    isolation: Isolation = None,
    image: Image = None,
    gpu_hours: GpuHours = None,
    money: Money = None,
    all_images: AllImages = False,
    inherit: Inherit = None,
    as_json: AsJson = False,
) -> None:
    """Show what such a change would do now, and change nothing."""
    rows = _rows(gpus, guaranteed, borrowable, lendable)
    rules = _rules(most_queued, most_running, time_limit, priority, isolation, image, gpu_hours, _money(money))
    dropped = _dropped(inherit, all_images)
    with connect() as client:
        of, spec, _ = _changed(client, tenant, rows, no_gpus or (), rules, dropped)
        found = client.preview_quota(QuotaPreviewSpec(tenant_id=of, quota=spec))
    print_json(found) if as_json else _print_preview(found)


@app.command("grant")
def grant_request(
    request: RequestId,
    gpus: Annotated[int | None, typer.Option(help="So many more at once, instead of what was asked for.")] = None,
    guaranteed: Annotated[int | None, typer.Option(help="So many more guaranteed, instead.")] = None,
    until: Annotated[str | None, typer.Option(help=END_HELP)] = None,
    answer: Annotated[str | None, typer.Option(help="A line for who asked.")] = None,
    as_json: AsJson = False,
) -> None:
    """Grant what was asked for; it ends by itself."""
    end = None if until is None else read(lambda: end_us(until))
    spec = read(lambda: QuotaGrantSpec(limit=gpus, guaranteed=guaranteed, until=end, answer=answer))
    with connect() as client:
        print_request(client.grant_quota_request(request, spec), as_json)


@app.command("refuse")
def refuse_request(
    request: RequestId,
    reason: Annotated[str, typer.Option(help="A line for who asked.")],
    as_json: AsJson = False,
) -> None:
    """Refuse what was asked for."""
    spec = read(lambda: QuotaRefusal(reason=reason))
    with connect() as client:
        print_request(client.refuse_quota_request(request, spec), as_json)


def _rows(*columns: list[str] | None) -> dict[str, dict[str, Any]]:
    """What the options say of each model."""
    rows: dict[str, dict[str, Any]] = {}
    for name, said in zip(("limit", "guaranteed", "borrowable", "lendable"), columns, strict=True):
        for model, text in pairs(said or (), "MODEL=N").items():
            rows.setdefault(model, {})[name] = read(partial(_limit, text))
    return rows


def _rules(*values: Any) -> dict[str, Any]:
    return {name: value for name, value in zip(RULES.values(), values, strict=True) if value is not None}


def _dropped(inherit: Sequence[str] | None, all_images: bool) -> set[str]:
    names = {*(inherit or ()), *(["images"] if all_images else [])}
    if unknown := names - set(RULES):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is none of {', '.join(RULES)}")
    return {RULES[name] for name in names}


def _changed(
    client: Client,
    tenant: str,
    rows: Mapping[str, Mapping[str, Any]],
    no_gpus: Sequence[str],
    rules: Mapping[str, Any],
    dropped: set[str],
) -> tuple[str, QuotaSpec, int]:
    """The tenant, its own quota with what the options change, and the version that it is a change of."""
    of = tenant_id(client, tenant)
    view = client.tenant_quota(of)
    own = {name: value for name, value in view.own.items() if name not in ("gpus", *dropped)}
    had = {row["model"]: row for row in view.own.get("gpus", ())}
    kept = [model for model in dict.fromkeys((*had, *rows)) if model not in no_gpus]
    gpus = [{"model": model, **had.get(model, {}), **rows.get(model, {})} for model in kept]
    spec = read(lambda: QuotaSpec(gpus=[GpuQuota(**row) for row in gpus], **{**own, **rules}))
    return of, spec, view.version


def _money(text: str | None) -> int | None:
    return None if text is None else read(lambda: money_micro(text))


def _limit(text: str) -> int | None:
    if text == UNLIMITED:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is neither a number nor {UNLIMITED!r}")
    return int(text)


def _print(view: QuotaView, as_json: bool) -> None:
    print_json(view) if as_json else print_quota(view)


def _print_preview(view: QuotaPreview) -> None:
    print_fields([(f"over, {each.row}", f"{each.used} used of {each.limit}") for each in view.over])
    if view.running:
        print_line("")
        print_table(
            ("RUNS BEYOND IT", "TENANT", "GPUS", "SINCE"),
            [
                (j.job_id, j.tenant_id, f"{j.gpus} {j.model or ''}".strip(), moment_text(j.started_at))
                for j in view.running
            ],
        )
    for title, jobs in (
        ("WOULD START", view.starts), ("WOULD WAIT", view.waits), ("KEEPS WAITING", view.keeps_waiting)
    ):  # fmt: skip
        _print_jobs(title, jobs)
    if view.left_out:
        print_line(f"and {view.left_out} more")
    if not (view.over or view.starts or view.waits):
        print_line("nothing would change now")


def _print_jobs(title: str, jobs: Sequence[PreviewedJob]) -> None:
    if jobs:
        print_line("")
        print_table((title, "TENANT", "WHY"), [(job.job_id, job.tenant_id, job.text or "") for job in jobs])
