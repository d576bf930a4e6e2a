"""The client of a Corral server.

The names below are loaded when they are first used: the server's processes read the contract from here, and should
not pay at each start for an HTTP client that they do not use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.async_client import AsyncClient
    from corral.client import Client
    from corral.errors import ApiError, CorralError, InputRefused, NotConfigured, Unreachable, UnsafeDownload
    from corral.handles import Artifact, Job
    from corral.jobs import JobSpec, JobView, Resources, Retry

__all__ = [
    "ApiError",
    "Artifact",
    "AsyncClient",
    "Client",
    "CorralError",
    "InputRefused",
    "Job",
    "JobSpec",
    "JobView",
    "NotConfigured",
    "Resources",
    "Retry",
    "Unreachable",
    "UnsafeDownload",
]

_HOMES = {
    "Artifact": "handles",
    "AsyncClient": "async_client",
    "Client": "client",
    "Job": "handles",
    "JobSpec": "jobs",
    "JobView": "jobs",
    "Resources": "jobs",
    "Retry": "jobs",
}
"""The module of each name that is not in `errors`."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'corral' has no attribute {name!r}")
    return getattr(import_module(f"corral.{_HOMES.get(name, 'errors')}"), name)
