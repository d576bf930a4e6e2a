"""The catalogue of images: names, what nodes found behind them, what is blocked, and whose signature is asked for."""

from sqlmodel import Field

from store.base import Row, big, json


class Image(Row, table=True):
    """A catalogue entry."""

    __tablename__ = "image"

    name: str = Field(primary_key=True)
    kind: str
    reference: str
    min_cuda: str | None = None
    description: str | None = None
    state: str = "admitted"
    """`admitted` or `retired`; the rest of how it stands is in the tables below."""
    is_restricted: bool = False
    """Only the tenants of `image_tenant`, and those below them, see and use it."""
    created_us: int = big()


class ImageTenant(Row, table=True):
    """A tenant that may use a restricted image, with all tenants below it."""

    __tablename__ = "image_tenant"

    image_name: str = Field(primary_key=True, foreign_key="image.name")
    tenant_id: str = Field(primary_key=True, foreign_key="tenant.id")


class ImageCheck(Row, table=True):
    """What a node found behind a reference. None for what was admitted before checks were made, and for `host`."""

    __tablename__ = "image_check"

    reference: str = Field(primary_key=True)
    state: str = "waiting"
    """`waiting`, `good`, `refused`."""
    findings: list[dict[str, str]] = json(default_factory=list)
    refusals: list[str] = json(default_factory=list)
    cuda: str | None = None
    size_bytes: int | None = big(default=None)
    rule_id: str | None = None
    """Of the rule by which its signature is checked; None if no signature is asked for."""
    signed_by: str | None = None
    trouble: str | None = None
    """Why the last node that was asked could not look; another one is asked."""
    asked_node_id: str | None = None
    asked_us: int = big(default=0)
    node_id: str | None = None
    checked_us: int | None = big(default=None)


class ImageBlock(Row, table=True):
    """A digest, or an engine's image id, that starts nowhere any more."""

    __tablename__ = "image_block"

    digest: str = Field(primary_key=True)
    reason: str
    blocked_us: int = big()


class ImageWish(Row, table=True):
    """An image that a node should have soon, as the last plan foresaw it."""

    __tablename__ = "image_wish"

    node_id: str = Field(primary_key=True, foreign_key="node.id")
    reference: str = Field(primary_key=True)


class SignatureRule(Row, table=True):
    """Whose signature images of these repositories must carry."""

    __tablename__ = "signature_rule"

    id: str = Field(primary_key=True)
    pattern: str = Field(unique=True)
    key_pem: str | None = None
    identity: str | None = None
    issuer: str | None = None
    is_logged: bool = True
    created_us: int = big()
