"""The settings of the control process: built once, from the environment, and passed on."""

import socket
import uuid
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from domain.webhooks import WebhookRules


def _own_name() -> str:
    """Unique to this process: two of one host must not take each other for themselves."""
    return f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"


class ControlSettings(BaseSettings):
    """Where the truth and the hints are, and where the metrics go."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_", frozen=True, extra="ignore")

    database_url: str
    redis_url: str
    """`unix:///path`, `redis://…` or `rediss://…`."""
    signing_key_file: Path | None = None
    """Keys that sign the daily seals, as `corrald keys new signing` makes them; None seals nothing."""
    seals_url: str | None = None
    """Where copies of the seals are kept, outside of the database, as fsspec writes it; None keeps none."""
    control_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Prometheus metrics on this port; None for none."""
    control_metrics_host: str = "127.0.0.1"
    secrets_key_file: Path | None = None
    secrets_kms_command: str | None = None
    """The master keys, as the API has them: they open the secrets with which deliveries are signed."""
    webhook_ports: str = "443,8443"
    webhook_allow_http: bool = False
    webhook_allow_networks: str = ""
    """The operator's own networks that webhooks may reach although they are not public."""
    holder: str = Field(default_factory=_own_name)
    """The name under which this process leads."""

    @property
    def webhook_rules(self) -> WebhookRules:
        """What webhooks may reach."""
        return WebhookRules.of(self.webhook_ports, self.webhook_allow_networks, allow_http=self.webhook_allow_http)
