"""The people of a tenant, or of the platform."""

from corral.contract import Page
from corral.identity import MemberRole, MemberSpec, MemberView
from fastapi import APIRouter
from starlette.responses import Response

from api.auth import TenantAdminCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import MemberPath, TenantQuery
from api.transactions import Reading, Writing
from api.views.identity import member_view
from domain.roles import Role
from store import members
from store.minting import check_gives_places
from store.paging import Position

router = APIRouter(prefix="/members", tags=["members"])


@router.get("")
def list_members(
    caller: TenantAdminCaller, session: Reading, paging: AskedPage, tenant_id: TenantQuery = None
) -> Page[MemberView]:
    """The tenant's members, newest first; for an admin who names no tenant, the platform's."""
    rows = members.members(session, caller.narrowed(tenant_id), paging.limit, paging.start)
    return paging.page(rows, member_view, lambda row: Position(row.created_us, row.id))


@router.post("", status_code=201, response_model=MemberView)
def invite(
    body: MemberSpec, caller: TenantAdminCaller, session: Writing, once: AskedOnce, tenant_id: TenantQuery = None
) -> Response:
    """Give a place to the person whom the provider knows by this address; it waits for their first login."""
    place = caller.narrowed(tenant_id)
    check_gives_places(session, caller.principal)
    return once.create(
        session,
        body,
        lambda: member_view(members.invite(session, place, Role(body.role), body.name or body.email, body.email)),
    )


@router.get("/{member_id}")
def show(member_id: MemberPath, caller: TenantAdminCaller, session: Reading) -> MemberView:
    """One member."""
    return member_view(members.member(session, caller.scope, member_id))


@router.patch("/{member_id}")
def set_role(member_id: MemberPath, body: MemberRole, caller: TenantAdminCaller, session: Writing) -> MemberView:
    """Give another role at the same place. Keys already made do no more than it allows, at once."""
    check_gives_places(session, caller.principal)
    return member_view(members.set_role(session, caller.scope, member_id, Role(body.role)))


@router.delete("/{member_id}", status_code=204)
def remove(member_id: MemberPath, caller: TenantAdminCaller, session: Writing) -> None:
    """End the place, its keys and logins, and all keys made from these, at once."""
    members.remove(session, caller.scope, member_id)
