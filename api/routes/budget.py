"""What may be spent, what is, and until when it lasts."""

from typing import Annotated

from corral.budgets import BudgetSpec, BudgetView, TopUp
from fastapi import APIRouter, Query
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller, TenantCaller
from api.once import AskedOnce
from api.paths import TenantPath, TenantQuery
from api.transactions import Reading, Writing
from api.views.budgets import budget_view
from domain.ids import TenantId
from store import budgets

router = APIRouter(tags=["budget"])

DAYS = 30
Days = Annotated[int, Query(ge=1, le=366, description="So many days of use, up to today.")]


@router.get("/budget")
def show(caller: TenantCaller, session: Reading, days: Days = DAYS, tenant_id: TenantQuery = None) -> BudgetView:
    """What the tenant may spend, what it has spent day by day, and until when it lasts; and so of the key that asks."""
    owner = caller.acting_for(tenant_id)
    key = caller.key_id if owner == caller.tenant_id else None
    return budget_view(budgets.state(session, owner, key, days))


@router.put("/tenants/{tenant_id}/budget")
def put_budget(
    tenant_id: TenantPath, body: BudgetSpec, caller: AdminCaller, session: Writing, tell: Tell
) -> BudgetView:
    """Set what a tenant may spend. Where that is less than is spent, what runs is stopped if it may be."""
    for job_id in budgets.put_budget(session, tenant_id, body.total_micro):
        tell.changed(job_id)
    tell.wake()
    return budget_view(budgets.state(session, TenantId(tenant_id), None, DAYS))


@router.post("/tenants/{tenant_id}/budget/top-up", status_code=201, response_model=BudgetView)
def top_up(
    tenant_id: TenantPath, body: TopUp, caller: AdminCaller, session: Writing, once: AskedOnce, tell: Tell
) -> Response:
    """Add to a tenant's budget, or take from it. Jobs that waited for it go back into the queue."""

    def add() -> BudgetView:
        for job_id in budgets.top_up(session, tenant_id, body.amount_micro, body.reason):
            tell.changed(job_id)
        tell.wake()
        return budget_view(budgets.state(session, TenantId(tenant_id), None, DAYS))

    return once.create(session, body, add)
