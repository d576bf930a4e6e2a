"""The audit: who changed what."""

from corral.contract import View


class AuditEntryView(View):
    """A change, as it was written down. Its hash covers every field."""

    id: str
    chain: str
    """A tenant's id, or `platform`."""
    seq: int
    """Its place in the chain, from 1."""
    at_us: int
    actor: str
    """A key, a node, or `system`."""
    member_id: str | None
    role: str
    what: str
    """Method and route, or what the system did."""
    path: str
    target: str
    status: int
    request_id: str
    """As the request's answer named it in `X-Request-Id`."""
    address: str
    changes: str
    """The fields that were sent, as JSON; secrets are left out."""
    prev_hash: str
    hash: str


class AuditChainView(View):
    """What the verifier found in a chain."""

    chain: str
    length: int
    head: str
    """The hash of its last entry."""
    checked: int = 0
    """Up to which entry it was looked at; the rest follows on the next page."""
    is_sound: bool
    first_bad_seq: int | None
    problem: str


class AuditCheck(View):
    """What the verifier found."""

    is_sound: bool
    chains: list[AuditChainView]
