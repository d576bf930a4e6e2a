"""What a key may do, and that no key gives more than the one that mints it."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from domain.errors import BeyondKey, BeyondOwnRights, Invalid
from domain.ids import KeyId, MemberId, TenantId
from domain.roles import Role

Bound = TypeVar("Bound", bound=Collection[str])


@dataclass(frozen=True, slots=True)
class Rights:
    """What a key may do. None is no bound but the role's."""

    role: Role
    tenant_id: TenantId | None
    """None for a platform admin's."""
    scopes: frozenset[str] | None = None
    images: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None
    own_jobs_only: bool = False
    expires_us: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing but the role bounds what it may do while it lasts."""
        return self.scopes is None and self.images is None and self.levels is None and not self.own_jobs_only


@dataclass(frozen=True, slots=True)
class AskedRights:
    """What a key to be minted should be able to do. None is as much as its maker's."""

    role: Role | None = None
    tenant_id: TenantId | None = None
    """A tenant within the maker's reach, which was checked; None for the maker's own."""
    scopes: frozenset[str] | None = None
    images: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None
    own_jobs_only: bool = False
    expires_us: int | None = None


@dataclass(frozen=True, slots=True)
class Author:
    """Who submits a job, and to which images and levels the key is kept."""

    key_id: KeyId | None = None
    member_id: MemberId | None = None
    images: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None

    def check(self, image: str, least_level: str) -> None:
        """Refuse a job that the key was not made for.

        Raises:
            BeyondKey: it names another image, or asks for another level.
        """
        for what, asked, allowed in (("image", image, self.images), ("the level", least_level, self.levels)):
            if allowed is not None and asked not in allowed:
                raise BeyondKey(f"{what} {asked}", ", ".join(allowed) or "none")


NOBODY = Author()
"""The platform itself."""


def narrowed(maker: Rights, asked: AskedRights) -> Rights:
    """The rights asked for, which are all within the maker's.

    Raises:
        BeyondOwnRights: one is not.
        Invalid: the role does not go with having a tenant, or with having none.
    """
    tenant_id = asked.tenant_id or maker.tenant_id
    role = asked.role or (Role.TENANT_ADMIN if tenant_id and maker.role is Role.PLATFORM_ADMIN else maker.role)
    if not maker.role.covers(role):
        raise BeyondOwnRights(f"the role {role}")
    check_place(role, tenant_id)
    if asked.expires_us is not None and maker.expires_us is not None and asked.expires_us > maker.expires_us:
        raise BeyondOwnRights("a longer life than this one has")
    return Rights(
        role,
        tenant_id,
        _within("scopes", maker.scopes, asked.scopes),
        _within("images", maker.images, asked.images),
        _within("levels", maker.levels, asked.levels),
        maker.own_jobs_only or asked.own_jobs_only,
        maker.expires_us if asked.expires_us is None else asked.expires_us,
    )


def check_place(role: Role, tenant_id: TenantId | None) -> None:
    """The platform's admins have no tenant, and everybody else has one.

    Raises:
        Invalid: it is not so.
    """
    if (role is Role.PLATFORM_ADMIN) != (tenant_id is None):
        what = "platform_admin has no tenant" if tenant_id else f"{role} is a role at a tenant"
        raise Invalid(f"the role {what}", "name a tenant with ?tenant_id=ten_…, or choose another role")


def _within(what: str, makers: Bound | None, asked: Bound | None) -> Bound | None:
    if makers is None or asked is None:
        return makers if asked is None else asked
    if beyond := sorted(set(asked) - set(makers)):
        raise BeyondOwnRights(f"the {what} {', '.join(beyond)}")
    return asked
