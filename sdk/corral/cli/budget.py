"""`corral budget`."""

from typing import Annotated

import typer
from corral.budgets import BudgetView, BurnDay, PurseView
from corral.cli.numbers import PURSE_UNITS, milli_text, moment_text, money_text, purse_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id
from corral.cli.output import print_fields, print_json, print_line, print_table

Days = Annotated[int, typer.Option(min=1, max=366, help="So many days of use, up to today.")]
DAYS = 7


def budget(
    days: Days = DAYS,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show what may be spent, what is spent, and until when it lasts."""
    with connect() as client:
        found = client.budget(days=days, tenant_id=maybe_tenant_id(client, tenant))
    print_budget(found, as_json)


def print_budget(view: BudgetView, as_json: bool, with_days: bool = True) -> None:
    """Where a tenant stands, and what the days took."""
    if as_json:
        print_json(view)
        return
    print_fields(
        [
            ("tenant", view.tenant_id),
            ("bounds", "" if view.purses else "none: nothing but the quota bounds it"),
            (
                "runs now",
                f"{milli_text(view.running_gpus_milli)} GPUs, {money_text(view.running_micro_per_hour)} an hour",
            ),
        ]
    )
    if view.purses:
        print_line("")
        print_table(
            ("PURSE", "BOUND", "SPENT", "HELD", "LEFT", "", "SPENT AT WEEK'S RATE", "AT RATE OF NOW"),
            [_row(purse, view.tenant_id) for purse in view.purses],
        )
    if with_days:
        print_line("")
        print_table(("DAY", "GPU HOURS", "COST", "LEFT"), [_day(day) for day in view.days])


def _row(purse: PurseView, tenant_id: str) -> tuple[str, ...]:
    amounts = (purse_text(purse.unit, number) for number in (purse.bound, purse.spent, purse.held, purse.left))
    percent = "" if purse.unit == "gpus_milli" or purse.bound == 0 else f"{max(0, purse.spent) * 100 // purse.bound} %"
    what = PURSE_UNITS[purse.unit]
    whose = "" if purse.owner_id == tenant_id else f" of {purse.owner_id}"
    name = f"{what}{f' {purse.period}' if purse.period else ''}{whose}"
    lasts = "" if purse.unit == "gpus_milli" else "lasts"
    ends = (moment_text(at) or lasts for at in (purse.spent_at_week, purse.spent_at_running))
    return (name, *amounts, percent, *ends)


def _day(day: BurnDay) -> tuple[str, ...]:
    left = "" if day.left_micro is None else money_text(day.left_micro)
    return (day.day, day.gpu_hours, money_text(day.cost_micro), left)
