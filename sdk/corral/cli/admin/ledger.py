"""`corral admin ledger`."""

import typer
from corral.cli.options import AsJson, TenantRef, connect, tenant_id
from corral.cli.output import print_json, print_line

app = typer.Typer(no_args_is_help=True, help="The ledger.")


@app.callback()
def ledger() -> None:
    """The ledger."""


@app.command("verify")
def verify(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Check a tenant's chain; exit 1 if it is not sound."""
    with connect() as client:
        pieces = list(client.verify_ledger(tenant_id(client, tenant)))
    found = pieces[-1].model_copy(update={"seals": sum(piece.seals for piece in pieces)})
    if as_json:
        print_json(found)
    elif found.is_sound:
        print_line(f"sound: {found.entries} entries")
    else:
        print_line(f"not sound from entry {found.first_bad_seq} on: {found.problem}")
    if not found.is_sound:
        raise typer.Exit(1)
