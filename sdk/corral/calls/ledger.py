"""Requests about prices, usage and the ledger."""

from collections.abc import Sequence

from corral.call import PAGE_LIMIT, Call, create, delete, get, place, put, query
from corral.contract import Page
from corral.ledger import AdjustmentSpec, LedgerCheck, LedgerEntryView, SigningKeys, UsageFormat, UsageView
from corral.prices import PriceSpec, PriceView
from corral.proofs import Receipt, SealProof, SealView


def usage(
    group_by: Sequence[str] = (),
    *,
    since: int | None = None,
    until: int | None = None,
    tz: str | None = None,
    tenant_id: str | None = None,
) -> Call[UsageView]:
    """What the ledger says, by any of `corral.ledger.GROUPS` and `label:NAME`; times in microseconds, UTC."""
    groups = ",".join(group_by) or None
    return get(place("usage"), UsageView, group_by=groups, since=since, until=until, tz=tz, tenant_id=tenant_id)


def usage_export(
    format: UsageFormat,
    group_by: Sequence[str] = (),
    *,
    since: int | None = None,
    until: int | None = None,
    tz: str | None = None,
    tenant_id: str | None = None,
) -> Call[None]:
    """The same as CSV, or every line of the ledger as FinOps FOCUS rows; a stream, which the client writes."""
    asked = {"format": format, "group_by": ",".join(group_by) or None, "since": since, "until": until, "tz": tz}
    return Call("GET", place("usage"), lambda _response: None, params=query({**asked, "tenant_id": tenant_id}))


def chain_export(*, tenant_id: str | None = None) -> Call[None]:
    """Every entry of a tenant's chain, a line of JSON each; a stream, which the client writes."""
    return Call("GET", place("ledger"), lambda _response: None, params=query({"tenant_id": tenant_id}))


def receipt(job_id: str) -> Call[Receipt]:
    """What a job used and cost so far, signed by the server."""
    return get(place("jobs", job_id, "receipt"), Receipt)


def signing_keys() -> Call[SigningKeys]:
    """The public keys by which receipts and seals may be checked."""
    return get(place("signing-keys"), SigningKeys)


def seals() -> Call[Page[SealView]]:
    """Every seal, the newest first."""
    return get(place("seals"), Page[SealView], limit=PAGE_LIMIT)


def seal(number: int, *, tenant_id: str | None = None) -> Call[SealProof]:
    """A seal, and the proof that the head of a tenant's chain is in it."""
    return get(place("seals", str(number)), SealProof, tenant_id=tenant_id)


def adjust(spec: AdjustmentSpec) -> Call[LedgerEntryView]:
    """Credit or debit a tenant (admin)."""
    return create(place("adjustments"), LedgerEntryView, spec)


def adjustments(*, tenant_id: str | None = None) -> Call[Page[LedgerEntryView]]:
    """Every adjustment, the newest first (admin)."""
    return get(place("adjustments"), Page[LedgerEntryView], limit=PAGE_LIMIT, tenant_id=tenant_id)


def verify_ledger(tenant_id: str) -> Call[Page[LedgerCheck]]:
    """Whether a tenant's chain is sound, and where it first is not; a long one comes in several pieces (admin)."""
    return get(place("tenants", tenant_id, "ledger", "verify"), Page[LedgerCheck])


def prices(*, model: str | None = None) -> Call[Page[PriceView]]:
    """Every version of every price, the newest first (admin)."""
    return get(place("prices"), Page[PriceView], limit=PAGE_LIMIT, model=model)


def set_price(spec: PriceSpec) -> Call[PriceView]:
    """Set the price of a model, from now on or from a moment to come (admin)."""
    return put(place("prices"), PriceView, spec)


def take_back_price(price_id: str) -> Call[None]:
    """Take back a price that is not in force yet (admin)."""
    return delete(place("prices", price_id))
