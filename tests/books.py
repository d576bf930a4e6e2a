"""The oracle: what must agree in the database after anything has happened."""

from sqlmodel import Session, select

from store import ledger, quotas
from store.tables import Allocation, Attempt, Gpu, LedgerEntry, Node, Quota, Tenant


def assert_books_agree(session: Session) -> None:
    """The oracle: counters equal a recount, held devices equal open allocations, chains verify, intervals closed."""
    rows = session.exec(select(Quota)).all()
    counted = quotas.recount(session)
    assert {(q.tenant_id, q.model): q.gpu_used_milli for q in rows if q.gpu_used_milli} == counted
    reserved = {(q.tenant_id, q.model): q.gpu_reserved_milli for q in rows if q.gpu_reserved_milli}
    assert reserved == quotas.recount_reserved(session)
    jobs = quotas.recount_jobs(session)
    for quota in rows:
        if quota.model == "*":
            assert (quota.queued_used, quota.running_used) == jobs.get(quota.tenant_id, (0, 0))
    open_shares: dict[str, int] = {}
    for allocation in session.exec(select(Allocation)):
        if allocation.until_us is None:
            open_shares[allocation.gpu_id] = open_shares.get(allocation.gpu_id, 0) + allocation.share_milli
        else:
            posted = session.exec(select(LedgerEntry).where(LedgerEntry.allocation_id == allocation.id)).all()
            assert sum(entry.duration_us for entry in posted) == allocation.until_us - allocation.from_us
    assert {gpu.id: gpu.used_milli for gpu in session.exec(select(Gpu)) if gpu.used_milli} == open_shares
    for tenant in session.exec(select(Tenant)):
        assert ledger.verify(session, tenant.id)[1] is None
    for node in session.exec(select(Node)):
        live = session.exec(select(Attempt).where(Attempt.node_id == node.id, Attempt.state != "ended")).all()
        assert node.cpus_milli_used == sum(attempt.cpus_milli for attempt in live)
