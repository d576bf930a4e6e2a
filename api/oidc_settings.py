"""The provider through which people log in, and what its claims are worth here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from domain.roles import Role
from store.people import Grant


class OidcRule(BaseModel):
    """A role for everybody of whom the provider claims something: `{"claim": "groups", "value": "vision", …}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    claim: str
    value: str
    role: Role
    tenant: str | None = None
    """Id or name; None for the platform."""

    @model_validator(mode="after")
    def _has_its_place(self) -> Self:
        if (self.role is Role.PLATFORM_ADMIN) != (self.tenant is None):
            raise ValueError("the role platform_admin has no tenant, and every other role has one")
        return self

    @property
    def grant(self) -> Grant:
        """What it gives."""
        return Grant(self.tenant, self.role)

    def holds(self, claims: Mapping[str, Any]) -> bool:
        """Whether the claim has that value, or has it among its values."""
        said = claims.get(self.claim)
        return said == self.value or (isinstance(said, list) and self.value in said)


class OidcSettings(BaseSettings):
    """The provider through which people log in (`CORRAL_OIDC_…`)."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_OIDC_", frozen=True, extra="ignore")

    issuer: str = ""
    """Such as https://accounts.example.org; empty for no login: then there are keys alone."""
    client_id: str = ""
    client_secret: SecretStr | None = None
    client_secret_file: Path | None = None
    """The secret in a file; with neither, the client is a public one, which PKCE protects."""
    scope: str = "openid email profile"
    domains: list[str] = []
    """Of addresses that may log in, in lower case; none for all. The provider must have verified the address."""
    roles: list[OidcRule] = []
    session_seconds: int = 12 * 3600
    """How long the key of a login is good."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if self.issuer and not self.client_id:
            raise ValueError("CORRAL_OIDC_ISSUER needs CORRAL_OIDC_CLIENT_ID")
        return self

    def secret(self) -> str | None:
        """What the provider knows this server by."""
        if self.client_secret_file is not None:
            return self.client_secret_file.read_text().strip()
        return None if self.client_secret is None else self.client_secret.get_secret_value()
