"""A caller, and what it reaches."""

from dataclasses import dataclass

from domain.errors import Invalid, NotFound
from domain.ids import KeyId, MemberId, TenantId
from domain.rights import Author, Rights
from domain.roles import Role
from store.key_rows import Family
from store.keys import Principal


@dataclass(frozen=True, slots=True)
class Caller:
    """A key of a tenant, or of an admin of the platform, and what it may do now."""

    principal: Principal
    named: TenantId | None = None
    """The tenant that the request names, if that is within its reach."""

    @property
    def key_id(self) -> KeyId:
        """Its key."""
        return self.principal.key_id

    @property
    def member_id(self) -> MemberId | None:
        """The person whose key it is; None for a program's."""
        return self.principal.member_id

    @property
    def rights(self) -> Rights:
        """What it may do."""
        return self.principal.rights

    @property
    def role(self) -> Role:
        """What it is."""
        return self.rights.role

    @property
    def tenant_id(self) -> TenantId | None:
        """Its own tenant; None for an admin of the platform."""
        return self.rights.tenant_id

    @property
    def is_admin(self) -> bool:
        """Whether it rules the platform."""
        return self.role is Role.PLATFORM_ADMIN

    @property
    def scope(self) -> TenantId | None:
        """Whose rows it reaches: its tenant's and those of the tenants below, or (None) everybody's."""
        return self.tenant_id

    @property
    def family(self) -> Family | None:
        """The keys it may see and end; None for whoever rules the tenant, and sees all."""
        return None if self.role.covers(Role.TENANT_ADMIN) else Family(self.key_id, self.member_id)

    @property
    def own_jobs(self) -> KeyId | None:
        """Set if it sees no jobs but those that were submitted with it."""
        return self.key_id if self.rights.own_jobs_only else None

    @property
    def author(self) -> Author:
        """Who it is to the jobs that it submits."""
        return Author(self.key_id, self.member_id, self.rights.images, self.rights.levels)

    @property
    def name(self) -> str:
        """Under which its idempotency keys are kept."""
        return self.own_jobs or self.tenant_id or "admin"

    def narrowed(self, tenant_id: str | None) -> TenantId | None:
        """The scope, narrowed to `tenant_id` if that is asked for: the own tenant, or one below it.

        Raises:
            NotFound: it is neither, whether or not there is such a tenant.
        """
        if tenant_id is None:
            return self.scope
        if self.scope is not None and tenant_id not in (self.scope, self.named):
            raise NotFound("tenant")
        return TenantId(tenant_id)

    def acting_for(self, tenant_id: str | None) -> TenantId:
        """The one tenant that is acted for.

        Raises:
            Invalid: an admin does not say which.
            NotFound: it is neither the own tenant nor one below it.
        """
        chosen = self.narrowed(tenant_id)
        if chosen is None:
            raise Invalid("an admin's key has no tenant", "say which: ?tenant_id=ten_…, or --tenant NAME")
        return chosen
