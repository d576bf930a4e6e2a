"""The ledger as rows of FOCUS 1.2, the FinOps Foundation's format for cost and usage."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from api.views.usage import money, safe_cell
from domain.calendar import Calendar, Part
from domain.money import EntryKind, gpu_hours_text
from store.usage import Question

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = (
    "BilledCost", "BillingAccountId", "BillingAccountName", "BillingAccountType", "BillingCurrency",
    "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
    "ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingCurrency", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName",
    "ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory", "SkuId",
    "SkuMeter", "SkuPriceId", "SubAccountId", "SubAccountName", "SubAccountType", "Tags",
    "x_AttemptId", "x_Cause", "x_CostMicro", "x_EntryHash", "x_EntryId", "x_EntrySeq", "x_GpuUsMilli", "x_GpuUuid",
    "x_Image", "x_KeyId", "x_MemberId", "x_NodeId", "x_PostedAt", "x_RateMilli",
)  # fmt: skip
UNIT = "GPU-Hours"


@dataclass(frozen=True, slots=True)
class Issuer:
    """Who bills, and in what currency."""

    name: str
    currency: str


def focus_rows(
    row: Any, question: Question, months: Calendar, issuer: Issuer, account: tuple[str, str]
) -> Iterator[list[str | int | None]]:
    """An entry as rows: one for each billing period that it touches, which add up to it.

    Args:
        account: id and name of the organisation that gets the bill.
    """
    amounts = (row.duration_us, row.cost_micro)
    for part in months.parts((row.from_us, row.until_us), question.window, amounts):
        values = {**_account(row, issuer, account), **_periods(part), **_charge(row, part), **_own(row, part)}
        yield [values.get(column) for column in COLUMNS]


def _account(row: Any, issuer: Issuer, account: tuple[str, str]) -> Mapping[str, str | int | None]:
    return {
        "BillingAccountId": account[0],
        "BillingAccountName": safe_cell(account[1]),
        "BillingAccountType": "Organisation",
        "BillingCurrency": issuer.currency,
        "InvoiceIssuerName": safe_cell(issuer.name),
        "ProviderName": safe_cell(issuer.name),
        "PublisherName": safe_cell(issuer.name),
        "SubAccountId": row.tenant_id,
        "SubAccountName": safe_cell(row.tenant_name),
        "SubAccountType": "Tenant",
        "ServiceCategory": "Compute",
        "ServiceName": "GPU jobs",
        "ServiceSubcategory": "Other (Compute)",
        "ResourceId": row.job_id,
        "ResourceName": safe_cell(row.job_name),
        "ResourceType": None if row.job_id is None else "GPU job",
        "Tags": json.dumps(row.labels or {}, sort_keys=True),
    }


def _periods(part: Part) -> Mapping[str, str | int | None]:
    return {
        "BillingPeriodStart": _time(part.period.from_us),
        "BillingPeriodEnd": _time(part.period.until_us),
        "ChargePeriodStart": _time(part.from_us),
        "ChargePeriodEnd": _time(part.until_us),
    }


def _charge(row: Any, part: Part) -> Mapping[str, str | int | None]:
    duration_us, cost_micro = part.amounts
    cost = money(cost_micro)
    charged = {"BilledCost": cost, "EffectiveCost": cost, "ListCost": cost, "ContractedCost": cost}
    if row.kind == EntryKind.ADJUSTMENT:
        category = "Credit" if cost_micro < 0 else "Adjustment"
        return {
            **charged, "ChargeCategory": category, "ChargeDescription": safe_cell(row.reason),
            "ChargeFrequency": "One-Time",
        }  # fmt: skip
    # FOCUS calls a correction so only if the period that it corrects may have been billed before
    is_late = row.kind == EntryKind.CORRECTION and row.posted_us >= part.period.until_us
    hours = gpu_hours_text(duration_us * row.share_milli)
    rate = 1000 if row.rate_milli is None else row.rate_milli
    price = _unit_price(row.price_micro_per_gpu_hour * rate)
    return {
        **charged,
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if is_late else None,
        "ChargeDescription": f"{safe_cell(row.model)}, {row.cause}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": hours,
        "ConsumedUnit": UNIT,
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": UNIT,
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        "SkuId": safe_cell(row.model),
        "SkuMeter": row.cause,
        "SkuPriceId": f"{safe_cell(row.model)}/{row.cause}/{price}",
    }


def _own(row: Any, part: Part) -> Mapping[str, str | int | None]:
    """What FOCUS has no column for."""
    return {
        "x_AttemptId": row.attempt_id,
        "x_Cause": row.cause,
        "x_CostMicro": part.amounts[1],
        "x_EntryHash": row.hash,
        "x_EntryId": row.id,
        "x_EntrySeq": row.seq,
        "x_GpuUsMilli": part.amounts[0] * row.share_milli,
        "x_GpuUuid": safe_cell(row.gpu_uuid),
        "x_Image": safe_cell(row.image_name),
        "x_KeyId": row.key_id,
        "x_MemberId": row.member_id,
        "x_NodeId": row.node_id,
        "x_PostedAt": _time(row.posted_us),
        "x_RateMilli": row.rate_milli,
    }


def _unit_price(micro_milli: int) -> str:
    """A price times a rate, as a decimal with every digit."""
    whole, rest = divmod(micro_milli, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _time(us: int) -> str:
    moment = EPOCH + timedelta(microseconds=us)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{us % 10**6:06d}" if us % 10**6 else "") + "Z"
