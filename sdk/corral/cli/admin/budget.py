"""`corral admin budget`."""

from typing import Annotated

import typer
from corral.budgets import BudgetSpec, TopUp
from corral.cli.budget import DAYS, Days, print_budget
from corral.cli.numbers import money_micro
from corral.cli.options import AsJson, TenantRef, connect, read, tenant_id

UNLIMITED = "unlimited"

app = typer.Typer(no_args_is_help=True, help="What a tenant may spend.")


@app.command("show")
def show_budget(tenant: TenantRef, days: Days = DAYS, as_json: AsJson = False) -> None:
    """Show what a tenant may spend, and what it has spent."""
    with connect() as client:
        print_budget(client.budget(days=days, tenant_id=tenant_id(client, tenant)), as_json)


@app.command("set")
def set_budget(
    tenant: TenantRef,
    total: Annotated[str, typer.Argument(help='Money, such as "500" or "99.50", or "unlimited".')],
    as_json: AsJson = False,
) -> None:
    """Set what a tenant may spend until it is topped up. What a month may cost is in its quota."""
    micro = None if total == UNLIMITED else read(lambda: money_micro(total))
    with connect() as client:
        spec = read(lambda: BudgetSpec(total_micro=micro))
        print_budget(client.set_tenant_budget(tenant_id(client, tenant), spec), as_json, with_days=False)


@app.command("top-up")
def top_up(
    tenant: TenantRef,
    amount: Annotated[str, typer.Argument(help='Money, such as "500"; after "--", "-20" takes some back.')],
    reason: Annotated[str, typer.Option(help="Why; kept with it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add to a tenant's budget; jobs that wait for it go on."""
    sign = -1 if amount.startswith("-") else 1
    micro = sign * read(lambda: money_micro(amount.removeprefix("-")))
    with connect() as client:
        spec = read(lambda: TopUp(amount_micro=micro, reason=reason))
        print_budget(client.top_up_budget(tenant_id(client, tenant), spec), as_json, with_days=False)
