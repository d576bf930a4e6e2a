"""New keys from the key of somebody who may make them."""

from collections.abc import Mapping
from dataclasses import replace

from sqlmodel import Session

from domain.errors import BeyondKey, Invalid
from domain.purse import Unit
from domain.rights import AskedRights, narrowed
from domain.roles import Role
from store.key_chains import key_chain
from store.keys import Principal, mint
from store.purses import open_first, purses_of
from store.tables import ApiKey

CHAIN_MAX = 8
"""Keys made by keys made by keys: each request walks them all."""


def mint_from(
    session: Session,
    maker: Principal,
    name: str,
    asked: AskedRights,
    totals: Mapping[Unit, int],
    *,
    is_child: bool,
    of_tenant: bool = False,
) -> tuple[ApiKey, str]:
    """A new key, and its text, which is not kept.

    Args:
        totals: what its jobs may hold at once, use and cost in all. They draw on the purses of its makers too.
        is_child: it ends with the maker's key. It does so anyway if that one could not make another of its own kind.
        of_tenant: it is the tenant's, and does not end with the member who made it.

    Raises:
        BeyondOwnRights: it should do more than the maker's.
        Invalid: it would be too far from the first of its chain, or would have purses and no tenant.
    """
    key, text = _minted(session, maker, name, asked, is_child or not _stands_alone(session, maker), of_tenant)
    if totals and key.tenant_id is None:
        raise Invalid("an admin's key has no purses", "make it for a tenant: ?tenant_id=ten_…, or --tenant NAME")
    for unit, bound in totals.items():
        open_first(session, str(key.tenant_id), key.id, unit, bound)
    return key, text


def check_gives_places(session: Session, giver: Principal) -> None:
    """Refuse to give people places by a key that is bounded: who comes to a place is not bounded as the key is, and
    stays when it ends. (Scopes are no such bound: one of them is for this.)

    Raises:
        BeyondKey: the key is bounded.
    """
    kept = (giver.rights.images, giver.rights.levels, giver.parent_key_id)
    if any(each is not None for each in kept) or giver.rights.own_jobs_only or purses_of(session, giver.key_id):
        raise BeyondKey("giving people places", "what it was made for; use a key that nothing bounds, or log in")


def _minted(
    session: Session, maker: Principal, name: str, asked: AskedRights, is_child: bool, of_tenant: bool
) -> tuple[ApiKey, str]:
    if not is_child:
        rights = narrowed(replace(maker.rights, expires_us=None), asked)
        return mint(session, name, rights, None if of_tenant else maker.member_id)
    if len(key_chain(session, maker.key_id)) >= CHAIN_MAX:
        raise Invalid(f"keys are made from keys at most {CHAIN_MAX} deep", "make it with the key further up")
    return mint(session, name, narrowed(maker.rights, asked), maker.member_id, maker.key_id)


def _stands_alone(session: Session, maker: Principal) -> bool:
    """Whether keys that it makes may outlive it: it is a person's or an admin's, and nothing bounds it."""
    is_own = maker.member_id is not None or maker.rights.role.covers(Role.TENANT_ADMIN)
    is_bounded = maker.parent_key_id is not None or not maker.rights.is_whole or purses_of(session, maker.key_id)
    return is_own and not is_bounded
