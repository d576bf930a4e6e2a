"""Requests about what may be spent."""

from corral.budgets import BudgetSpec, BudgetView, TopUp
from corral.call import Call, create, get, place, put


def budget(*, days: int = 30, tenant_id: str | None = None) -> Call[BudgetView]:
    """What the own tenant may spend, what it has spent, and until when it lasts; for an admin, a tenant's."""
    return get(place("budget"), BudgetView, days=days, tenant_id=tenant_id)


def set_tenant_budget(tenant_id: str, spec: BudgetSpec) -> Call[BudgetView]:
    """Set what a tenant may spend (admin)."""
    return put(place("tenants", tenant_id, "budget"), BudgetView, spec)


def top_up_budget(tenant_id: str, spec: TopUp) -> Call[BudgetView]:
    """Add to a tenant's budget, or take from it (admin)."""
    return create(place("tenants", tenant_id, "budget", "top-up"), BudgetView, spec)
