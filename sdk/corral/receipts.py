"""Checks a receipt without the server: signature, hashes, sums and prices."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from corral.chains import entry_hash
from corral.signed import Document, NotProven, TrustedKeys, check_signature

KIND = "corral.receipt"
VERSION = 1
GPU_HOUR = 3_600_000_000 * 1000
"""A GPU-hour in microseconds times thousandths of a GPU."""
FULL_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Proven:
    """What a receipt that holds says."""

    tenant_id: str
    job_id: str
    key_id: str
    entries: int
    gpu_us_milli: int
    cost_micro: int
    is_final: bool


def verify_receipt(receipt: Document, keys: TrustedKeys) -> Proven:
    """Check signature, hashes, sums and prices of a receipt, as it was read from JSON.

    Raises:
        NotProven: what does not hold, and where.
    """
    signed = dict(receipt)
    signature = signed.pop("signature", None)
    if signed.get("kind") != KIND or signed.get("version") != VERSION or not isinstance(signature, str):
        raise NotProven(f"this is no receipt of version {VERSION}")
    check_signature(signed, signature, keys)
    try:
        _check_entries(receipt)
        _check_sums(receipt)
        _check_costs(receipt["entries"])
        return Proven(
            receipt["tenant_id"],
            receipt["job_id"],
            receipt["key_id"],
            len(receipt["entries"]),
            receipt["gpu_us_milli"],
            receipt["cost_micro"],
            receipt["is_final"],
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise NotProven(f"the receipt was signed, but is not made as one: {error!r}") from error


def check_link(link: Document, tenant_id: str) -> None:
    """Nothing, if an entry is what its hash was made of, and the tenant's.

    Raises:
        NotProven: it is not.
    """
    if (
        entry_hash({**link["fields"], "prev_hash": link["prev_hash"]}) != link["hash"]
        or link["fields"]["seq"] != link["seq"]
    ):
        raise NotProven(f"entry {link['seq']} is not what its hash was made of")
    if link["fields"]["tenant_id"] != tenant_id:
        raise NotProven(f"entry {link['seq']} is another tenant's")


def _check_entries(receipt: Document) -> None:
    before: Document | None = None
    for link in receipt["entries"]:
        check_link(link, receipt["tenant_id"])
        if link["fields"]["job_id"] != receipt["job_id"]:
            raise NotProven(f"entry {link['seq']} is another job's")
        if before is not None and link["seq"] <= before["seq"]:
            raise NotProven(f"entry {link['seq']} stands after entry {before['seq']}")
        if before is not None and link["seq"] == before["seq"] + 1 and link["prev_hash"] != before["hash"]:
            raise NotProven(f"entry {link['seq']} names another hash than that of the entry before it")
        if link["seq"] == receipt["chain_length"] and link["hash"] != receipt["chain_head"]:
            raise NotProven(f"entry {link['seq']} is not the head of the chain")
        before = link
    if before is not None and before["seq"] > receipt["chain_length"]:
        raise NotProven(f"entry {before['seq']} stands beyond the chain, which has {receipt['chain_length']}")


def _check_sums(receipt: Document) -> None:
    by_cause: dict[str, dict[str, int]] = defaultdict(lambda: {"gpu_us_milli": 0, "cost_micro": 0})
    for fields in _fields(receipt["entries"]):
        by_cause[fields["cause"]]["gpu_us_milli"] += fields["duration_us"] * fields["share_milli"]
        by_cause[fields["cause"]]["cost_micro"] += fields["cost_micro"]
    if dict(by_cause) != receipt["by_cause"]:
        raise NotProven("the sums of the causes are not those of the entries")
    for what in ("gpu_us_milli", "cost_micro"):
        if sum(each[what] for each in by_cause.values()) != receipt[what]:
            raise NotProven(f"{what} is not the sum of the entries")


def _check_costs(entries: Iterable[Document]) -> None:
    """Rounded down once, on the whole of a device's time for a cause: the rule of docs/ledger.md."""
    wholes: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for fields in _fields(entries):
        if "allocation_id" in fields:
            wholes[fields["allocation_id"], fields["cause"]].append(fields)
    for (_, cause), lines in wholes.items():
        worth = {_worth(line) for line in lines}
        duration_us = sum(line["duration_us"] for line in lines)
        costs = {duration_us * each // (GPU_HOUR * FULL_MILLI) for each in worth}
        if costs != {sum(line["cost_micro"] for line in lines)}:
            raise NotProven(f"the cost of the time {cause} does not follow from its price, rate and duration")


def _worth(fields: Document) -> int:
    """What a microsecond of it is worth, in 1/(GPU_HOUR * FULL_MILLI) of a millionth."""
    return int(fields["share_milli"] * fields["price_micro_per_gpu_hour"] * fields.get("rate_milli", FULL_MILLI))


def _fields(entries: Iterable[Document]) -> Iterable[Document]:
    return (link["fields"] for link in entries)
