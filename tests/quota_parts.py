"""Tenants with guarantees, and jobs that are started under them."""

from builders import a_job, a_placement, a_tenant
from sqlalchemy import Engine
from sqlmodel import Session

from domain.quota_terms import GpuTerms, QuotaRules
from store import assignments
from store.assignments import PlacementRefused
from store.engine import writing
from store.quota_settings import set_quota


def gpus(limit: int | None = None, guaranteed: int = 0, borrowable: int | None = None, lendable: int | None = None):  # type: ignore[no-untyped-def]
    """Terms, in whole GPUs."""
    milli = [None if each is None else each * 1000 for each in (limit, guaranteed, borrowable, lendable)]
    return GpuTerms(milli[0], milli[1] or 0, milli[2], milli[3])


def a_team(session: Session, name: str, parent: str | None, **terms: GpuTerms) -> str:
    """A tenant with these rows; `any_` stands for `*`."""
    tenant_id = a_tenant(session, name, gpus=None, parent=parent)
    rows = {"*" if model == "any_" else model: row for model, row in terms.items()}
    set_quota(session, tenant_id, QuotaRules(gpus=rows, isolation_levels=("process",), most_running=10_000))
    return tenant_id


def start(session: Session, job_id: str, node_id: str) -> None:
    placement = a_placement(session, job_id, node_id)
    assignments.lock_for(session, [placement])
    with session.begin_nested():
        assignments.assign(session, placement)


def started(engine: Engine, tenant_id: str, node_id: str, count: int) -> int:
    """How many of so many jobs of one GPU could be started."""
    found = 0
    for _ in range(count):
        try:
            with writing(engine) as session:
                start(session, a_job(session, tenant_id), node_id)
        except PlacementRefused:
            continue
        found += 1
    return found
