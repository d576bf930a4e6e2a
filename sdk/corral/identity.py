"""Keys and who they belong to: what is sent and answered."""

from typing import Annotated, Literal

from corral.contract import Line, Request, View
from corral.jobs import ImageName, IsolationLevel
from pydantic import Field, StringConstraints

Role = Literal["viewer", "member", "tenant_admin", "platform_admin"]
"""Each may do what the ones before it may, in the tenant and in those below it. `viewer` reads; `member` changes jobs
and what belongs to them; `tenant_admin` rules the tenant's members and keys; `platform_admin` rules the platform."""
Scope = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z-]{0,39}:(read|write)$")]
"""A part of the API, and whether it may be read or changed: `jobs:read`, `jobs:write`, `usage:read`."""
Time = Annotated[int, Field(ge=0, le=2**62)]
"""Microseconds since the epoch, UTC."""


class KeySpec(Request):
    """A key to be made. What is left out is as with the key that makes it."""

    name: Line = "key"
    role: Role | None = None
    scopes: list[Scope] | None = Field(default=None, max_length=200)
    images: list[ImageName] | None = Field(default=None, max_length=1000)
    """Images that jobs submitted with it may name."""
    isolation_levels: list[IsolationLevel] | None = Field(default=None, max_length=4)
    """Levels that jobs submitted with it may ask for."""
    own_jobs_only: bool = False
    """It sees the jobs that were submitted with it, and none of its tenant's others."""
    is_child: bool = False
    """It ends with the key that makes it. A bounded key, and one that is no admin's and no person's, makes no other."""
    gpus: int | None = Field(default=None, ge=0, le=1_000_000)
    """Most GPUs that its jobs hold at once."""
    gpu_hours: int | None = Field(default=None, ge=0, le=1_000_000_000)
    """Most GPU-hours that its jobs use in all."""
    money_micro: int | None = Field(default=None, ge=0, le=2**62)
    """Most that its jobs cost in all, in millionths of the currency."""
    expires_at: Time | None = None
    """None never, or with the key that makes it."""


class KeyPurse(View):
    """What a key's jobs, and those of keys made with it, may use in all."""

    unit: Literal["money_micro", "gpu_time", "gpus_milli"]
    """Millionths of the currency; microseconds of a GPU; thousandths of GPUs at once."""
    bound: int
    held: int
    """The most that running jobs may still use."""
    spent: int
    left: int
    """For jobs to come: the bound, less what is held and spent."""


class KeyView(View):
    id: str
    tenant_id: str | None
    member_id: str | None = None
    """The person whose key it is; None for a program's."""
    parent_key_id: str | None = None
    """The key that made it, with which it ends."""
    name: str
    prefix: str
    role: Role
    scopes: list[str] | None = None
    images: list[str] | None = None
    isolation_levels: list[str] | None = None
    own_jobs_only: bool = False
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    totals: list[KeyPurse] = []
    """Empty where only the tenant's purses, and those of the keys that it was made with, bound it."""


class NewKey(KeyView):
    """A key just made: the only time that its secret is shown."""

    key: str


class Whoami(View):
    """Whose key this is, and what it may do now."""

    key_id: str
    parent_key_id: str | None = None
    role: Role
    tenant_id: str | None
    tenant_name: str | None
    member_id: str | None = None
    member_name: str | None = None
    scopes: list[str] | None = None
    """None is all that the role may."""
    images: list[str] | None = None
    isolation_levels: list[str] | None = None
    own_jobs_only: bool = False
    expires_at: int | None = None
    totals: list[KeyPurse] = []
    """What this key may use; those of the keys that it was made with are in `GET /v1/budget`."""


Email = Annotated[Line, StringConstraints(pattern=r"^[^@\s]{1,64}@[A-Za-z0-9.-]{1,190}$")]
"""The address of a person."""


class MemberSpec(Request):
    """A person to be given a place."""

    email: Email
    """The address that the provider vouches for. It finds the place at the first login, and no more after that."""
    name: Line | None = None
    role: Role = "member"


class MemberRole(Request):
    """Another role for a member."""

    role: Role


class MemberView(View):
    id: str
    tenant_id: str | None
    """None for the platform."""
    role: Role
    name: str
    email: str | None
    state: Literal["invited", "active"]
    source: Literal["invitation", "claims"]
    """`claims`: given by what the provider says at each login, and taken back with it."""
    created_at: int


class LoginCode(Request):
    """The code that a person was shown, and what the program that waits for it has kept."""

    code: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
    verifier: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._~-]{43,128}$")]
