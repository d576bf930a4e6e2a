"""Who calls. A route declares its caller, and thereby who may call it.

A suspended tenant's keys still count: it may read, and cancel what runs. Whatever else would change something asks for
an `ActiveCaller`, which they are not.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import BackgroundTasks, Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlmodel import Session

from api.audit import Actor
from api.query import known_query
from api.transactions import AppDatabase
from domain.errors import Forbidden, Invalid, TenantSuspended, Unauthenticated
from domain.ids import KeyId, NodeId, TenantId
from store import keys
from store.join_tokens import check_join_token
from store.keys import Principal
from store.nodes import node_by_token

TOKEN_CHARACTERS_MAX = 256
JOIN_MARK = "corraljoin_"
"""How a one-time token begins, with which a node joins."""
_bearer = HTTPBearer(auto_error=False, description="An API key, `corral_…`; for a node's worker, its node's token.")


@dataclass(frozen=True, slots=True)
class Caller:
    """A tenant, or an admin of the platform."""

    key_id: KeyId
    role: str
    tenant_id: TenantId | None
    tenant_name: str | None
    is_suspended: bool

    @property
    def is_admin(self) -> bool:
        """Whether it rules the platform."""
        return self.role == "admin"

    @property
    def scope(self) -> TenantId | None:
        """Whose rows it may see: its tenant's, or (None) everybody's."""
        return None if self.is_admin else self.tenant_id

    @property
    def name(self) -> str:
        """Under which its idempotency keys are kept."""
        return self.tenant_id or "admin"

    def narrowed(self, tenant_id: str | None) -> TenantId | None:
        """The scope, narrowed to `tenant_id` if an admin asks for that. A tenant can only ask for itself.

        Raises:
            Forbidden: it is a tenant that asks for another.
        """
        if tenant_id is None:
            return self.scope
        if not self.is_admin and tenant_id != self.tenant_id:
            raise Forbidden("admin")
        return TenantId(tenant_id)

    def acting_for(self, tenant_id: str | None) -> TenantId:
        """The one tenant that is acted for.

        Raises:
            Invalid: an admin does not say which.
            Forbidden: a tenant means another.
        """
        chosen = self.narrowed(tenant_id)
        if chosen is None:
            raise Invalid("an admin's key has no tenant", "say which: ?tenant_id=ten_…, or --tenant NAME")
        return chosen


def bearer_token(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> str:
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


async def _caller(
    request: Request, token: Token, _: KnownQuery, database: AppDatabase, background: BackgroundTasks
) -> Caller:
    found = await database.read(lambda session: keys.authenticate(session, token))
    if found.is_use_due:
        background.add_task(_note_use, database, found.key_id)  # after the answer: a reader never waits for a writer
    request.state.actor = Actor(found.key_id, found.role, found.tenant_id, is_staff=found.tenant_id is None)
    return _of(found)


async def _note_use(database: AppDatabase, key_id: KeyId) -> None:
    await database.write(lambda session: keys.note_use(session, key_id))


def _of(found: Principal) -> Caller:
    return Caller(found.key_id, found.role, found.tenant_id, found.tenant_name, found.is_suspended)


TenantCaller = Annotated[Caller, Depends(_caller)]
"""A tenant or an admin, who may read."""


async def _active(caller: TenantCaller) -> Caller:
    if caller.is_suspended:
        raise TenantSuspended
    return caller


async def _admin(caller: TenantCaller) -> Caller:
    if not caller.is_admin:
        raise Forbidden("admin")
    return caller


ActiveCaller = Annotated[Caller, Depends(_active)]
"""A tenant that is not suspended, or an admin: who may change something."""
AdminCaller = Annotated[Caller, Depends(_admin)]


async def _node(request: Request, token: Token, _: KnownQuery, database: AppDatabase) -> NodeId:
    node_id = await database.read(lambda session: node_of(session, token))
    request.state.actor = Actor(node_id, "node", is_staff=True)
    return node_id


def node_of(session: Session, token: str) -> NodeId:
    """The node whose token this is.

    Raises:
        Unauthenticated: it is nobody's.
        Forbidden: it is a valid key, but not of a node.
    """
    try:
        return NodeId(node_by_token(session, token).id)
    except Unauthenticated:
        keys.authenticate(session, token)
        raise Forbidden("node") from None


NodeCaller = Annotated[NodeId, Depends(_node)]


async def _joining(request: Request, token: Token, _: KnownQuery, database: AppDatabase) -> NodeId | None:
    if token.startswith(JOIN_MARK):
        await database.read(lambda session: check_join_token(session, token))
        request.state.actor = Actor("", "joining", is_staff=True)
        return None
    return await _node(request, token, _, database)


JoiningNode = Annotated[NodeId | None, Depends(_joining)]
"""A node, or None for a machine that shows a token with which it may become one."""
