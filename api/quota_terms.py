"""From a quota as the contract has it to a quota as the store takes it, and back with its version."""

import re
from typing import Annotated

from corral.jobs import PRIORITIES
from corral.quotas import GpuQuota, QuotaSpec, QuotaView
from fastapi import Depends, Header
from sqlmodel import Session
from starlette.responses import Response

from api.views.quotas import quota_view
from domain.errors import Invalid
from domain.quota_terms import GpuTerms, QuotaRules
from domain.scheduling.snapshot import WHOLE_GPU
from store.quota_settings import grants_in_force, path_months, path_rows

_TAG = re.compile(r'"([0-9]{1,18})"', re.ASCII)


def rules_of(spec: QuotaSpec) -> QuotaRules:
    """The same quota, in the store's words.

    Raises:
        Invalid: a model stands in it twice.
    """
    if len({row.model for row in spec.gpus}) != len(spec.gpus):
        raise Invalid("a model stands twice in gpus")
    return QuotaRules(
        gpus={row.model: _terms(row) for row in spec.gpus},
        most_queued=spec.most_queued,
        most_running=spec.most_running,
        longest_time_limit_us=spec.longest_time_limit,
        highest_priority=None if spec.highest_priority is None else PRIORITIES.index(spec.highest_priority),
        isolation_levels=None if spec.isolation_levels is None else tuple(spec.isolation_levels),
        images=None if spec.images is None else tuple(spec.images),
        gpu_hours_per_month=spec.gpu_hours_per_month,
        money_micro_per_month=spec.money_micro_per_month,
    )


def shown(session: Session, tenant_id: str, response: Response) -> QuotaView:
    """The quota as it applies now; its version stands in the answer's ETag too."""
    grants = grants_in_force(session, tenant_id)
    view = quota_view(path_rows(session, tenant_id), path_months(session, tenant_id), grants)
    response.headers["ETag"] = f'"{view.version}"'
    return view


async def _if_version(if_match: Annotated[str | None, Header(max_length=100)] = None) -> int | None:
    if if_match is None or if_match.strip() == "*":
        return None
    found = _TAG.fullmatch(if_match.strip())
    if found is None:
        raise Invalid("If-Match is not the ETag of a quota", "send the ETag that GET answered")
    return int(found[1])


IfVersion = Annotated[int | None, Depends(_if_version)]
"""The version that a change was made from; None if the caller does not mind."""


def _terms(row: GpuQuota) -> GpuTerms:
    return GpuTerms(_milli(row.limit), row.guaranteed * WHOLE_GPU, _milli(row.borrowable), _milli(row.lendable))


def _milli(gpus: int | None) -> int | None:
    return None if gpus is None else gpus * WHOLE_GPU
