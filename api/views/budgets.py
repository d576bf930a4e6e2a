"""Budgets, as they are shown."""

from datetime import UTC, datetime, timedelta

from corral.budgets import BudgetView, BurnDay, PurseView

from domain.money import gpu_hours_text
from domain.purse import TOTAL, Unit
from store.budgets import BudgetState, Standing

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def budget_view(state: BudgetState) -> BudgetView:
    """Where a tenant stands."""
    return BudgetView(
        tenant_id=state.tenant_id,
        as_of=state.now,
        total_micro=state.total_micro,
        purses=[_purse(each) for each in state.standings],
        days=_days(state),
        running_micro_per_hour=state.running_micro_per_hour,
        running_gpus_milli=state.running_gpus_milli,
    )


def _purse(standing: Standing) -> PurseView:
    purse = standing.purse
    return PurseView.model_validate(
        {
            "owner_id": purse.owner_id,
            "unit": purse.unit.value,
            "period": purse.period,
            "bound": purse.bound,
            "held": purse.held,
            "spent": purse.spent,
            "left": purse.left,
            "unposted": standing.unposted,
            "is_exhausted": purse.is_exhausted,
            "warned_percent": standing.warned,
            "spent_at_week": standing.spent_at_week_us,
            "spent_at_running": standing.spent_at_running_us,
        }
    )


def _days(state: BudgetState) -> list[BurnDay]:
    """What is left at a day's end is what is left now and what the days after it took."""
    totals = [
        each.purse for each in state.standings
        if each.purse.owner_id == state.tenant_id and (each.purse.unit, each.purse.period) == (Unit.MONEY, TOTAL)
    ]  # fmt: skip
    left = totals[0].bound - totals[0].spent if totals else None
    days: list[BurnDay] = []
    for number, used in sorted(state.days.items(), reverse=True):
        days.append(
            BurnDay(
                day=(EPOCH + timedelta(days=number)).date().isoformat(),
                cost_micro=used.cost_micro,
                gpu_us_milli=used.gpu_us_milli,
                gpu_hours=gpu_hours_text(used.gpu_us_milli),
                left_micro=left,
            )
        )
        left = None if left is None else left + used.cost_micro
    return days[::-1]
