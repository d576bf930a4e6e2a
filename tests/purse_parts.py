"""Jobs that are started and ended in a test of purses, and what must agree afterwards."""

from builders import a_placement
from sqlmodel import Session, select

from domain.endings import Outcome
from domain.purse import MONTHLY
from store import assignments, attempts, ends, holds
from store.assignments import Assigned
from store.clock import now_us
from store.ends import Ending, Finding
from store.ids import new_id
from store.tables import Allocation, ApiKey, Gpu, Hold, Purse

CLEAN = Finding(True, "", "ok", "")
HOUR = 3_600_000_000


def start(session: Session, job_id: str, node_id: str) -> Assigned:
    """Give the job its devices, and let its gate be opened at once."""
    placement = a_placement(session, job_id, node_id)
    assignments.lock_for(session, [placement])
    with session.begin_nested():
        assigned = assignments.assign(session, placement)
    attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
    attempts.started(session, assigned.node_id, assigned.attempt_id, assigned.fence, 0, {})
    return assigned


def end(session: Session, assigned: Assigned, run_us: int, outcome: Outcome = Outcome.EXITED) -> None:
    """The worker says that it ran for so long."""
    uuids = session.exec(
        select(Gpu.uuid)
        .join(Allocation, Allocation.gpu_id == Gpu.id)
        .where(Allocation.attempt_id == assigned.attempt_id)
    ).all()
    code = 0 if outcome is Outcome.EXITED else None
    ending = Ending(outcome, exit_code=code, run_us=run_us)
    ends.ended(session, assigned.node_id, assigned.attempt_id, assigned.fence, ending, dict.fromkeys(uuids, CLEAN))


def assert_purses_agree(session: Session) -> None:
    """Held is the sum of the holds, spent is the sum of the ledger, and who has ended holds nothing."""
    query = select(Purse).where(Purse.period != MONTHLY)
    purses = session.exec(query.execution_options(populate_existing=True)).all()
    stated = {(each.owner_id, each.unit, each.period): (each.held, each.spent) for each in purses}
    assert stated == holds.recount(session)
    live = {each.attempt_id for each in session.exec(select(Allocation).where(Allocation.until_us == None))}  # noqa: E711
    assert {each.attempt_id for each in session.exec(select(Hold))} <= live


def a_key(session: Session, tenant_id: str, parent: str | None = None) -> str:
    """A key of the tenant, made with another or by its admin."""
    key = ApiKey(
        id=new_id("key"),
        tenant_id=tenant_id,
        parent_key_id=parent,
        name="test",
        prefix=new_id("key"),
        secret_sha256="",
        role="member",
        created_us=now_us(session),
    )
    session.add(key)
    session.flush()
    return key.id
