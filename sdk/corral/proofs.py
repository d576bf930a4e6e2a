"""What the server signs: a job's receipt, and the seals over the heads of all chains."""

from typing import Literal

from corral.contract import View
from pydantic import ConfigDict


class ChainLink(View):
    """An entry of a tenant's chain: what is sealed of it, the hash before it, and its own."""

    seq: int
    prev_hash: str
    hash: str
    fields: dict[str, str | int]


class CauseSum(View):
    gpu_us_milli: int
    cost_micro: int


class Receipt(View):
    """What a job used and what it cost, as of `issued_us`. Everything but `signature` is signed."""

    model_config = ConfigDict(extra="allow", frozen=True)  # what a newer server signs too must not be lost

    kind: str
    version: int
    tenant_id: str
    job_id: str
    job_state: str
    is_final: bool
    """Whether nothing more will be posted, but for adjustments."""
    issued_us: int
    entries: list[ChainLink]
    gpu_us_milli: int
    cost_micro: int
    by_cause: dict[str, CauseSum]
    chain_length: int
    """Of the tenant's chain when it was issued, and the hash of its last entry."""
    chain_head: str
    key_id: str
    signature: str


class SealView(View):
    """A seal, as a list shows it."""

    number: int
    until_us: int
    """It covers what was written before this moment."""
    key_id: str


class SealDocument(View):
    """What was signed."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str
    version: int
    number: int
    until_us: int
    sealed_us: int
    root: str
    """Of the Merkle tree over all heads."""
    previous: str
    """SHA-256 of the document before it."""
    key_id: str


class SealedHead(View):
    """How far a chain went when it was sealed."""

    chain: str
    count: int
    hash: str
    links: str


class Step(View):
    side: Literal["left", "right"]
    hash: str


class SealProof(View):
    """A seal, and that one chain's head is in it. It tells nothing of other tenants' chains."""

    seal: SealDocument
    signature: str
    head: SealedHead | None
    """None if the chain had no entries yet."""
    path: list[Step]
