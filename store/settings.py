"""What every process that has the database is told of it: the address, the keys, and what webhooks may reach."""

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from domain.webhooks import WebhookRules


class StoreSettings(BaseSettings):
    """From variables that begin with `CORRAL_`: read once, passed on. The API's and control's settings begin here."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_", frozen=True, extra="ignore")

    database_url: str
    redis_url: str
    """`unix:///path`, `redis://…` or `rediss://…`: hints, and what is counted for a moment."""
    secrets_key_file: Path | None = None
    """Master keys under which secrets are kept, as `corrald keys new secrets` makes them."""
    secrets_kms_command: str | None = None
    """A program that wraps keys instead; see docs/secrets.md. With neither, nothing secret is taken."""
    signing_key_file: Path | None = None
    """Keys that sign receipts, adjustments and seals, as `corrald keys new signing` makes them; None signs nothing."""
    webhook_ports: str = "443,8443"
    webhook_allow_http: bool = False
    webhook_allow_networks: str = ""
    """The operator's own networks that webhooks may reach although they are not public."""

    @property
    def webhook_rules(self) -> WebhookRules:
        """What webhooks may reach."""
        return WebhookRules.of(self.webhook_ports, self.webhook_allow_networks, allow_http=self.webhook_allow_http)
