"""What was used, by whatever is asked for."""

from typing import Annotated, get_args

from corral.accounts import UsageView
from fastapi import APIRouter, Query

from api.auth import TenantCaller
from api.paths import TenantQuery
from api.transactions import Reading
from api.views.accounts import usage_view
from domain.errors import Invalid
from store.tenants import below
from store.usage import Group, usage

router = APIRouter(tags=["usage"])

GROUPS: tuple[Group, ...] = get_args(Group)
Time = Annotated[int | None, Query(ge=0, le=2**62, description="Microseconds since the epoch, UTC.")]


@router.get("/usage")
def show_usage(
    caller: TenantCaller,
    session: Reading,
    group_by: Annotated[str, Query(max_length=100, description="Any of tenant, model, job, day, cause.")] = "",
    since: Time = None,
    until: Time = None,
    tenant_id: TenantQuery = None,
) -> UsageView:
    """The ledger's sums, of the tenant and those below it. An admin sees all, or one tenant with those below."""
    groups = _groups(group_by)
    scope = caller.narrowed(tenant_id)
    tenants = None if scope is None else sorted(below(session, scope))
    return usage_view(groups, usage(session, tenants, groups, since, until), since, until)


def _groups(text: str) -> list[Group]:
    asked = [word for word in text.split(",") if word]
    groups = [group for group in GROUPS if group in asked]
    if len(groups) != len(asked):
        raise Invalid("group_by holds what is no group, or one twice", f"choose from {', '.join(GROUPS)}")
    return sorted(groups, key=asked.index)
