"""Who may do what: four roles, each of which may do all that the ones before it may. They hold down the tenant tree."""

from enum import StrEnum


class Role(StrEnum):
    """What somebody is, at a tenant or (the last) over the platform."""

    VIEWER = "viewer"
    """Reads."""
    MEMBER = "member"
    """Changes jobs and what belongs to them."""
    TENANT_ADMIN = "tenant_admin"
    """Rules the tenant's members and keys."""
    PLATFORM_ADMIN = "platform_admin"
    """Rules the platform: tenants, quotas, nodes, images, prices. Of no tenant."""

    @property
    def rank(self) -> int:
        """Higher may do more."""
        return list(Role).index(self)

    def covers(self, other: "Role") -> bool:
        """Whether who has this may do what `other` may."""
        return self.rank >= other.rank


def lower(one: Role, other: Role) -> Role:
    """The one of the two that may do less."""
    return other if one.covers(other) else one
