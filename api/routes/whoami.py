"""The caller itself."""

from corral.identity import Whoami
from fastapi import APIRouter

from api.auth import TenantCaller
from api.transactions import Reading
from api.views.identity import whoami_view
from store.purses import purses_of

router = APIRouter(prefix="/whoami", tags=["whoami"])


@router.get("")
def whoami(caller: TenantCaller, session: Reading) -> Whoami:
    """Whose key this is, and what it may do now. No key needs a scope for it."""
    return whoami_view(caller.principal, purses_of(session, caller.key_id))
