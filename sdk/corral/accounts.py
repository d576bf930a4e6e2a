"""Tenants: what admins send and everyone reads."""

from typing import Literal

from corral.contract import Name, Request, View
from corral.jobs import IsolationLevel
from corral.quantities import Duration
from pydantic import Field


class TenantSpec(Request):
    """A tenant to be made. It starts with no GPU until a quota grants some."""

    name: Name
    parent_id: str | None = None
    weight: int = Field(default=1, ge=1, le=1_000_000)
    default_isolation: IsolationLevel = "container"
    default_time_limit: Duration = Field(default=3_600_000_000, ge=1_000_000)


class TenantView(View):
    id: str
    name: str
    parent_id: str | None
    weight: int
    state: Literal["active", "suspended"]
    default_isolation: IsolationLevel
    default_time_limit: Duration
