"""People, credentials, and the logins that lead from one to the other."""

from sqlalchemy import Index, text
from sqlmodel import Field

from store.base import Row, big, json

KNOWN = text("state != 'removed'")
ADMIN = text("state != 'removed' AND tenant_id IS NULL")


class Member(Row, table=True):
    """A person's place at one tenant, or (no tenant) among the platform's admins. In two tenants it is two rows."""

    __tablename__ = "member"
    __table_args__ = (
        Index(
            "uq_member_person",
            "issuer",
            "subject",
            "tenant_id",
            unique=True,
            sqlite_where=KNOWN,
            postgresql_where=KNOWN,
        ),
        Index("uq_member_admin", "issuer", "subject", unique=True, sqlite_where=ADMIN, postgresql_where=ADMIN),
    )

    id: str = Field(primary_key=True)
    tenant_id: str | None = Field(default=None, foreign_key="tenant.id", index=True)
    role: str
    name: str
    email: str | None = Field(default=None, index=True)
    """Lower case. It finds an invitation, once; a person is known by issuer and subject."""
    issuer: str | None = None
    subject: str | None = None
    state: str = "invited"
    """`invited`, `active` (a person has logged in with it), `removed`."""
    source: str = "invitation"
    """`invitation`, or `claims`: given by what the provider says, and taken back with it."""
    created_us: int = big()
    removed_us: int | None = big(default=None)


class ApiKey(Row, table=True):
    """A credential of a person or a program; only the hash of its secret is kept."""

    __tablename__ = "api_key"

    id: str = Field(primary_key=True)
    tenant_id: str | None = Field(default=None, foreign_key="tenant.id", index=True)
    """None for a platform admin's key."""
    name: str
    prefix: str = Field(unique=True)
    secret_sha256: str
    role: str
    member_id: str | None = Field(default=None, foreign_key="member.id", index=True)
    """Whose it is; it ends with that member. None for a program's."""
    parent_key_id: str | None = Field(default=None, foreign_key="api_key.id", index=True)
    """The key that minted it with less than its own rights; it ends with that one."""
    scopes: list[str] | None = json(default=None)
    """None is all that the role may."""
    images: list[str] | None = json(default=None)
    levels: list[str] | None = json(default=None)
    own_jobs_only: bool = Field(default=False, sa_column_kwargs={"server_default": text("false")})
    """It sees the jobs that it, or a key minted from it, submitted, and no others."""
    created_us: int = big()
    expires_us: int | None = big(default=None)
    revoked_us: int | None = big(default=None)
    last_used_us: int | None = big(default=None)


class Login(Row, table=True):
    """A person on the way to the provider and back; good for minutes, and once."""

    __tablename__ = "login"

    id: str = Field(primary_key=True)
    state_sha256: str = Field(unique=True)
    browser_sha256: str
    """Of the cookie of the browser that began it: nobody ends another's login."""
    nonce: str
    verifier: str
    """Of PKCE, towards the provider."""
    tenant: str | None = None
    """The id or name of the tenant that the person means to act in."""
    challenge: str | None = None
    """Set by a program that waits for a code: the S256 of what it will show."""
    code_sha256: str | None = Field(default=None, unique=True)
    """Set once the person came back: what the program trades for a key."""
    member_id: str | None = Field(default=None, foreign_key="member.id")
    created_us: int = big()
    expires_us: int = big()
    returned_us: int | None = big(default=None)
    """When the provider's answer was taken; a second one is refused."""
