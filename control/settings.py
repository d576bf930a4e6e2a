"""The settings of the control process: built once, from the environment, and passed on."""

import socket
import uuid

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


def _own_name() -> str:
    """Unique to this process: two of one host must not take each other for themselves."""
    return f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"


class ControlSettings(BaseSettings):
    """Where the truth and the hints are, and where the metrics go."""

    model_config = SettingsConfigDict(env_prefix="CORRAL_", frozen=True, extra="ignore")

    database_url: str
    redis_url: str
    """`unix:///path`, `redis://…` or `rediss://…`."""
    control_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Prometheus metrics on this port of the loopback address; None for none."""
    holder: str = Field(default_factory=_own_name)
    """The name under which this process leads."""
