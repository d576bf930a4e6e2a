"""Secrets, as they are shown: without what they are for."""

from corral.secrets import SecretView

from store.tables import Secret


def secret_view(secret: Secret) -> SecretView:
    """A secret, without its value."""
    return SecretView(
        tenant_id=secret.tenant_id,
        name=secret.name,
        version=secret.version,
        size_bytes=secret.size_bytes,
        created_at=secret.created_us,
        last_used_at=secret.last_used_us,
    )
