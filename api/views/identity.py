"""Keys and whose they are, as they are shown."""

from collections.abc import Sequence
from typing import Any

from corral.identity import KeyPurse, KeyView, MemberView, NewKey, Whoami

from domain.purse import Purse
from store.keys import Principal
from store.tables import ApiKey, Member


def key_view(key: ApiKey, totals: Sequence[Purse]) -> KeyView:
    """A key, without its secret."""
    return KeyView.model_validate(_key(key, totals))


def new_key(key: ApiKey, text: str, totals: Sequence[Purse]) -> NewKey:
    """A key just made, with its text."""
    return NewKey.model_validate({**_key(key, totals), "key": text})


def whoami_view(found: Principal, totals: Sequence[Purse]) -> Whoami:
    """Whose key this is."""
    rights = found.rights
    return Whoami.model_validate(
        {
            "key_id": found.key_id,
            "parent_key_id": found.parent_key_id,
            "role": rights.role,
            "tenant_id": rights.tenant_id,
            "tenant_name": found.tenant_name,
            "member_id": found.member_id,
            "member_name": found.member_name,
            "scopes": None if rights.scopes is None else sorted(rights.scopes),
            "images": rights.images,
            "isolation_levels": rights.levels,
            "own_jobs_only": rights.own_jobs_only,
            "expires_at": rights.expires_us,
            "totals": [_total(each) for each in totals],
        }
    )


def member_view(member: Member) -> MemberView:
    """A member."""
    return MemberView.model_validate({**member.model_dump(), "created_at": member.created_us})


def _total(purse: Purse) -> KeyPurse:
    return KeyPurse.model_validate(
        {
            "unit": purse.unit.value,
            "bound": purse.bound,
            "held": purse.held,
            "spent": purse.spent,
            "left": purse.left,
        }
    )


def _key(key: ApiKey, totals: Sequence[Purse]) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant_id": key.tenant_id,
        "member_id": key.member_id,
        "parent_key_id": key.parent_key_id,
        "name": key.name,
        "prefix": key.prefix,
        "role": key.role,
        "scopes": key.scopes,
        "images": key.images,
        "isolation_levels": key.levels,
        "own_jobs_only": key.own_jobs_only,
        "created_at": key.created_us,
        "expires_at": key.expires_us,
        "revoked_at": key.revoked_us,
        "last_used_at": key.last_used_us,
        "totals": [_total(each) for each in totals],
    }
