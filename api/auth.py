"""Who calls. A route declares its caller, and thereby who may call it; here, for every route, it is found whether that
one may: the role, the scope that the route's tag and method make, and the tenant that the request names.

A suspended tenant's keys still count: it may read, and cancel what runs. Whatever else would change something asks for
an `ActiveCaller` or more, which they are not.
"""

import re
from typing import Annotated

from fastapi import BackgroundTasks, Depends, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlmodel import Session

from api.audit import Actor
from api.callers import Caller
from api.paths import ID_PATTERN
from api.query import known_query
from api.rates import Rates
from api.transactions import AppDatabase
from domain.errors import BeyondScope, CorralError, Forbidden, NotFound, TenantSuspended, Unauthenticated
from domain.ids import KeyId, NodeId, TenantId
from domain.roles import Role
from store import keys
from store.key_rows import is_job_of
from store.node_tokens import check_join_token, node_by_token, take_over
from store.scopes import reaches_tenant

TOKEN_CHARACTERS_MAX = 256
JOIN_MARK = "corraljoin_"
"""How a one-time token begins, with which a node joins."""
READS = ("GET", "HEAD")
SELF = "whoami"
"""The tag of the route that tells a key what it is, for which no key needs a scope."""
OF_OWN_JOBS = frozenset({SELF, "jobs", "logs", "artifacts", "inputs", "images", "gpus"})
"""Tags of the routes that a key that sees only its own jobs may use."""
_bearer = HTTPBearer(auto_error=False, description="An API key, `corral_…`; for a node's worker, its node's token.")


async def bearer_token(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> str:
    """The token of the request.

    Raises:
        Unauthenticated: there is none, or nothing that could be one.
    """
    if credentials is None or not 0 < len(credentials.credentials) <= TOKEN_CHARACTERS_MAX:
        raise Unauthenticated
    return credentials.credentials


Token = Annotated[str, Depends(bearer_token)]
KnownQuery = Annotated[None, Depends(known_query)]
"""Asked for after the token: whoever has none learns nothing of a route."""


def scope_of(route: APIRoute, method: str) -> str:
    """What a key with scopes must have among them to use the route: its tag, and whether it reads or writes."""
    return f"{route.tags[0]}:{'read' if method in READS else 'write'}"


async def find_caller(
    request: Request, token: Token, _: KnownQuery, database: AppDatabase, background: BackgroundTasks
) -> Caller:
    """The caller of the request, if it may use the route.

    Raises:
        CorralError: it may not.
    """
    rates: Rates = request.app.state.rates
    caller, refusal = await database.read(lambda session: _looked_at(session, token, request))
    await rates.charge(request, token, caller.key_id, caller.principal.rights.tenant_id)
    if refusal is not None:
        raise refusal
    if caller.principal.is_use_due:
        background.add_task(_note_use, database, caller.key_id)  # after the answer: a reader never waits for a writer
    actor = Actor(
        caller.key_id, caller.role.value, caller.tenant_id, caller.member_id, is_staff=caller.tenant_id is None
    )
    request.state.actor = actor
    return caller


def _looked_at(session: Session, token: str, request: Request) -> tuple[Caller, CorralError | None]:
    """The caller, and why it may not use the route for what the request names, if so: it pays for that too.

    Raises:
        Unauthenticated: it is nobody.
    """
    found = keys.authenticate(session, token)
    try:
        return _admitted(session, found, request), None
    except CorralError as refusal:
        return Caller(found), refusal


def _admitted(session: Session, found: keys.Principal, request: Request) -> Caller:
    """The caller, if its key's scopes, its tenant and its bounds let it use the route for what the request names."""
    route: APIRoute = request.scope["route"]
    needed = scope_of(route, request.method)
    rights, tag = found.rights, route.tags[0]
    if tag != SELF and rights.scopes is not None and needed not in rights.scopes:
        raise BeyondScope(needed)
    if rights.own_jobs_only:
        _check_own_jobs(session, found.key_id, str(tag), request.path_params.get("job_id"))
    named = request.path_params.get("tenant_id") or request.query_params.get("tenant_id")
    if named is None or not re.fullmatch(ID_PATTERN, named):
        return Caller(found)  # what is no id is refused where it is read
    if not reaches_tenant(session, rights.tenant_id, named):
        raise NotFound("tenant")
    return Caller(found, None if rights.tenant_id is None else TenantId(named))


def _check_own_jobs(session: Session, key_id: KeyId, tag: str, job_id: str | None) -> None:
    if tag not in OF_OWN_JOBS:
        raise Forbidden("member, with a key that is not kept to its own jobs")
    if job_id is not None and not is_job_of(session, key_id, job_id):
        raise NotFound("job")


async def _note_use(database: AppDatabase, key_id: KeyId) -> None:
    await database.write(lambda session: keys.note_use(session, key_id))


TenantCaller = Annotated[Caller, Depends(find_caller)]
"""Any role, which may read."""


async def member(caller: TenantCaller) -> Caller:
    """The caller, if it may end what its tenant runs."""
    return _at_least(caller, Role.MEMBER)


MemberCaller = Annotated[Caller, Depends(member)]
"""A member or above, of a suspended tenant too: who may end what runs."""


async def active(caller: MemberCaller) -> Caller:
    """The caller, if it may change jobs and what belongs to them."""
    return _not_suspended(caller)


async def tenant_admin(caller: TenantCaller, request: Request) -> Caller:
    """The caller, if it rules its tenant."""
    _at_least(caller, Role.TENANT_ADMIN)
    return caller if request.method in READS else _not_suspended(caller)


async def admin(caller: TenantCaller) -> Caller:
    """The caller, if it rules the platform."""
    return _at_least(caller, Role.PLATFORM_ADMIN)


ActiveCaller = Annotated[Caller, Depends(active)]
"""A member or above of a tenant that is not suspended: who may change jobs and what belongs to them."""
TenantAdminCaller = Annotated[Caller, Depends(tenant_admin)]
"""Who rules the tenant: members, keys, and what else is its own. A suspended one may read."""
AdminCaller = Annotated[Caller, Depends(admin)]
"""Who rules the platform."""


def _at_least(caller: Caller, role: Role) -> Caller:
    if not caller.role.covers(role):
        raise Forbidden(role)
    return caller


def _not_suspended(caller: Caller) -> Caller:
    if caller.principal.is_suspended:
        raise TenantSuspended
    return caller


async def node(request: Request, token: Token, _: KnownQuery, database: AppDatabase) -> NodeId:
    """The node that calls."""
    node_id = await _node_of(database, token)
    await request.app.state.rates.charge_node(request, token, node_id)
    request.state.actor = Actor(node_id, "node", is_staff=True)
    return node_id


async def _node_of(database: AppDatabase, token: str) -> NodeId:
    """The node whose token this is; a renewed one, used for the first time, takes the place of the one before."""
    node_id, is_first_use = await database.read(lambda session: node_of(session, token))
    if is_first_use:
        await database.write(lambda session: take_over(session, token))
    return node_id


def node_of(session: Session, token: str) -> tuple[NodeId, bool]:
    """The node whose token this is, and whether it is a renewed one that was not used before.

    Raises:
        Unauthenticated: it is nobody's.
        Forbidden: it is a valid key, but not of a node.
    """
    try:
        node = node_by_token(session, token)
    except Unauthenticated:
        keys.authenticate(session, token)
        raise Forbidden("node") from None
    return NodeId(node.id), node.next_token_sha256 == keys.hash_secret(token)


NodeCaller = Annotated[NodeId, Depends(node)]


async def joining(request: Request, token: Token, _: KnownQuery, database: AppDatabase) -> NodeId | None:
    """The node that calls, or None for a machine that may become one."""
    if token.startswith(JOIN_MARK):
        await database.read(lambda session: check_join_token(session, token))
        request.state.actor = Actor("", "joining", is_staff=True)
        return None
    return await node(request, token, _, database)


JoiningNode = Annotated[NodeId | None, Depends(joining)]
"""A node, or None for a machine that shows a token with which it may become one."""
