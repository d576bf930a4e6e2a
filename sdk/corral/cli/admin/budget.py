"""`corral admin budget`."""

from typing import Annotated, Any

import typer
from corral.budgets import BudgetSpec, BudgetView, TopUp
from corral.cli.budget import print_budget
from corral.cli.numbers import money_micro
from corral.cli.options import AsJson, TenantRef, connect, read, tenant_id
from corral.cli.output import print_json

UNLIMITED = "unlimited"

app = typer.Typer(no_args_is_help=True, help="What a tenant may spend.")


@app.command("show")
def show_budget(tenant: TenantRef, as_json: AsJson = False) -> None:
    """Show what a tenant may spend, and what it has spent."""
    with connect() as client:
        _print(client.budget(tenant_id=tenant_id(client, tenant)), as_json)


@app.command("set")
def set_budget(
    tenant: TenantRef,
    total: Annotated[str | None, typer.Option(help='Money, such as "500" or "99.50", until it is topped up.')] = None,
    month: Annotated[str | None, typer.Option(help="Money in each calendar month, UTC.")] = None,
    month_gpu_hours: Annotated[str | None, typer.Option(help="GPU-hours in each calendar month, UTC.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change what a tenant may spend; what is not named stays as it is, and "unlimited" takes a bound away."""
    said: dict[str, Any] = {
        "total_micro": read(lambda: _money(total)),
        "month_micro": read(lambda: _money(month)),
        "month_gpu_hours": read(lambda: _hours(month_gpu_hours)),
    }
    with connect() as client:
        of = tenant_id(client, tenant)
        now = client.budget(tenant_id=of)
        fields = {name: getattr(now, name) if bound == "" else bound for name, bound in said.items()}
        _print(client.set_tenant_budget(of, read(lambda: BudgetSpec(**fields))), as_json)


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
        _print(client.top_up_budget(tenant_id(client, tenant), spec), as_json)


def _money(text: str | None) -> int | str | None:
    """Millionths; None for no bound; "" for what was not said."""
    if text is None:
        return ""
    return None if text == UNLIMITED else money_micro(text)


def _hours(text: str | None) -> int | str | None:
    if text is None:
        return ""
    if text == UNLIMITED:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is neither a whole number of hours nor {UNLIMITED!r}")
    return int(text)


def _print(view: BudgetView, as_json: bool) -> None:
    print_json(view) if as_json else print_budget(view)
