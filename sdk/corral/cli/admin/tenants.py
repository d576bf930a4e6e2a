"""`corral admin tenants`."""

from typing import Annotated, Any

import typer
from corral.accounts import TenantSpec, TenantView
from corral.cli.options import AsJson, TenantRef, connect, merged, read, tenant_id
from corral.cli.output import print_json, print_line, print_table
from corral.quantities import duration_text

app = typer.Typer(no_args_is_help=True, help="Tenants.")


@app.command("list")
def list_tenants(as_json: AsJson = False) -> None:
    """List every tenant."""
    with connect() as client:
        found = list(client.tenants())
    if as_json:
        print_json(found)
        return
    print_table(
        ("TENANT", "NAME", "STATE", "PARENT", "WEIGHT", "ISOLATION", "TIME LIMIT"),
        [
            (
                t.id, t.name, t.state, t.parent_id or "", str(t.weight), t.default_isolation,
                duration_text(t.default_time_limit),
            )
            for t in found
        ],
    )  # fmt: skip


@app.command("create")
def create_tenant(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower case, digits, dots and dashes.")],
    parent: Annotated[str | None, typer.Option(help="The tenant above it, by id or name.")] = None,
    weight: Annotated[int | None, typer.Option(help="Its share beside its siblings'.")] = None,
    isolation: Annotated[str | None, typer.Option(help="Least level of its jobs, unless they say otherwise.")] = None,
    time_limit: Annotated[str | None, typer.Option(help="Of its jobs, unless they say otherwise.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a tenant. It has no GPU until a quota grants some."""
    said: dict[str, Any] = {
        "name": name, "weight": weight, "default_isolation": isolation, "default_time_limit": time_limit
    }  # fmt: skip
    read(lambda: TenantSpec(**merged({}, said)))
    with connect() as client:
        if parent is not None:
            said["parent_id"] = tenant_id(client, parent)
        _print_tenant(client.create_tenant(read(lambda: TenantSpec(**merged({}, said)))), as_json)


@app.command("suspend")
def suspend_tenant(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Let nothing of a tenant start any more."""
    with connect() as client:
        _print_tenant(client.suspend_tenant(tenant_id(client, tenant)), as_json)


@app.command("resume")
def resume_tenant(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Let a tenant start jobs again."""
    with connect() as client:
        _print_tenant(client.resume_tenant(tenant_id(client, tenant)), as_json)


def _print_tenant(view: TenantView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id} {view.name} {view.state}")
