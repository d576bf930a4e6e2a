"""The settings of the control process: built once, from the environment, and passed on."""

import socket
import uuid

from pydantic import Field

from store.settings import StoreSettings


def _own_name() -> str:
    """Unique to this process: two of one host must not take each other for themselves."""
    return f"{socket.gethostname()}/{uuid.uuid4().hex[:8]}"


class ControlSettings(StoreSettings):
    """Where the seals and the metrics go, and the name to lead under."""

    seals_url: str | None = None
    """Where copies of the seals are kept, outside of the database, as fsspec writes it; None keeps none."""
    control_metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Prometheus metrics on this port; None for none."""
    control_metrics_host: str = "127.0.0.1"
    holder: str = Field(default_factory=_own_name)
    """The name under which this process leads."""
