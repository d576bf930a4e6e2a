"""What an API process can be told, from the environment (`CORRAL_…`) or by whoever composes it."""

from typing import Any, Self

from pydantic import Field, model_validator

from api.oidc_settings import OidcSettings
from store.settings import StoreSettings


class ApiSettings(StoreSettings):
    """Read once, passed on; nothing else of the API reads the environment. Every bound has a reason to be there."""

    storage_url: str
    """Where inputs, logs and artifacts live: `file:///var/lib/corral/storage`, or `s3://bucket/prefix`."""
    storage_options: dict[str, Any] = Field(default={}, repr=False)
    """As JSON; s3fs's own options for S3, such as `endpoint_url`. Credentials and region: the usual AWS variables."""

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
    array_bytes_max: int = 64 * 2**20
    """Of the jobs of an array together, as they are stored."""
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
    rate_open: str = "20/second"
    """Requests of one address for what needs no key, but for `/healthz`."""
    metrics_port: int | None = None
    """None serves no metrics."""
    metrics_host: str = "127.0.0.1"
