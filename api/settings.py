"""What an API process can be told, from the environment (`CORRAL_…`) or by whoever composes it."""

from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.oidc_settings import OidcSettings
from domain.webhooks import WebhookRules


class ApiSettings(BaseSettings):
    """Read once, passed on; nothing else of the API reads the environment. Every bound has a reason to be there."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_", frozen=True, extra="ignore")

    database_url: str
    redis_url: str
    storage_url: str
    """Where inputs, logs and artifacts live: `file:///var/lib/corral/storage`, or `s3://bucket/prefix`."""
    storage_options: dict[str, Any] = Field(default={}, repr=False)
    """As JSON; s3fs's own options for S3, such as `endpoint_url`. Credentials and region: the usual AWS variables."""

    secrets_key_file: Path | None = None
    """Master keys under which secrets are kept, as `corrald keys new secrets` makes them."""
    secrets_kms_command: str | None = None
    """A program that wraps keys instead; see docs/secrets.md. With neither, nothing secret is taken."""

    signing_key_file: Path | None = None
    """Keys that sign receipts and adjustments, as `corrald keys new signing` makes them; None signs nothing."""
    provider_name: str = Field(default="Corral", min_length=1, max_length=100)
    """Who bills, in exported FOCUS rows."""
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    """That of all prices, by ISO 4217; a name only, nothing is converted."""
    public_url: str = ""
    """Where people reach this server, such as https://corral.example.org; needed for logins."""
    oidc: OidcSettings = Field(default_factory=OidcSettings)

    @model_validator(mode="after")
    def _knows_its_own_place(self) -> Self:
        if self.oidc.issuer and not self.public_url:
            raise ValueError("CORRAL_OIDC_ISSUER needs CORRAL_PUBLIC_URL")
        return self

    json_bytes_max: int = 2 * 2**20
    """Largest JSON body: a command and an environment at their bounds, written with escapes, fit in."""
    batch_bytes_max: int = 16 * 2**20
    """The same of a batch of jobs."""
    body_seconds: float = 30
    """Longest time that a JSON body may take to arrive."""
    chunk_seconds: float = 60
    """Longest silence inside an upload."""
    input_bytes_max: int = 2**30
    input_members_max: int = 100_000
    artifact_bytes_max: int = 16 * 2**30
    artifacts_max: int = 10_000
    """Files of one attempt."""
    log_post_bytes_max: int = 4 * 2**20
    log_bytes_max: int = 4 * 2**30
    """Of one attempt. The worker's own cap is lower; this one holds a worker that was broken into."""
    followers_max: int = 1000
    """Log followers of one process."""
    heartbeat_seconds: int = 10
    transactions_max: int = 10
    """Open transactions of one process, of each kind."""
    trusted_proxies: str = ""
    """Networks of proxies whose `X-Forwarded-For` is believed, with commas in between; nobody else's is."""
    rate_reads: str = "300/second"
    """How often one key may read; empty for no limit. Of a tenant's keys together, `rate_tenant_factor` times that."""
    rate_writes: str = "100/second"
    rate_submissions: str = "2000/second"
    """Requests that submit jobs; one of them may hold many."""
    rate_tenant_factor: int = 4
    rate_nodes: str = "500/second"
    """Of one node's worker."""
    rate_failures: str = "120/minute"
    """Requests of one address with no valid key, and attempts to log in."""
    webhook_ports: str = "443,8443"
    webhook_allow_http: bool = False
    webhook_allow_networks: str = ""
    """The operator's own networks that webhooks may reach although they are not public. Control reads the same."""
    metrics_port: int | None = None
    """None serves no metrics."""
    metrics_host: str = "127.0.0.1"

    @property
    def webhook_rules(self) -> WebhookRules:
        """What webhooks may reach."""
        return WebhookRules.of(self.webhook_ports, self.webhook_allow_networks, allow_http=self.webhook_allow_http)
