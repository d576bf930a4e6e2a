"""Tenants, as they are shown."""

from corral.accounts import TenantView
from corral.quantities import duration_text

from store.tables import Tenant


def tenant_view(tenant: Tenant) -> TenantView:
    """A tenant."""
    return TenantView.model_validate(
        {
            "id": tenant.id,
            "name": tenant.name,
            "parent_id": tenant.parent_id,
            "weight": tenant.weight,
            "state": tenant.state,
            "default_isolation": tenant.default_isolation,
            "default_time_limit": duration_text(tenant.default_time_limit_us),
        }
    )
