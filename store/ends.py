"""The end of an attempt: its devices are let go, its time is posted, and its job goes on or is over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.endings import FREE_RETRIES, NO_TRY, Outcome, RetryRule, Tries, Verdict, after
from domain.errors import NotFound, StaleFence
from domain.ids import Instant
from domain.money import Interval, intervals
from domain.states import AttemptEvent, AttemptState, JobEvent, JobState, next_attempt_state, next_job_state
from store.arrays import leave_array
from store.attempts import Standing, standing
from store.clock import now_us
from store.dependencies import Over, settle
from store.events import record
from store.holds import release, spend
from store.ledger import close_allocation
from store.locks import lock_nodes, lock_quotas
from store.parking import why_parked
from store.quotas import give_back_gpus, leave_running, return_to_queue
from store.tables import Allocation, Attempt, Gpu, Job, LedgerEntry, Node


@dataclass(frozen=True, slots=True)
class Ending:
    """How an attempt ended. Durations count from the claim, on the node's boot-time clock."""

    outcome: Outcome
    exit_code: int | None = None
    error: str = ""
    prepare_us: int = 0
    run_us: int = 0
    stop_us: int = 0
    fault_us: int = 0
    """Held for the platform's own sake after the end: recorded, not charged."""
    isolation: Mapping[str, Any] | None = None
    skipped: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """What a worker saw on a device after its holder was gone."""

    is_clean: bool
    reason: str
    health: str
    health_reason: str


def ended(
    session: Session,
    node_id: str,
    attempt_id: str,
    fence: int,
    ending: Ending,
    findings: Mapping[str, Finding],
) -> Standing:
    """The worker says that it is over. Told twice, it changes nothing.

    Args:
        findings: by UUID; a device without one stays dirty until a heartbeat shows it clean.

    Raises:
        NotFound: it is not an attempt of this node.
        StaleFence: it ended otherwise, or a newer attempt has taken its place.
    """
    attempt = _lock(session, attempt_id, node_id)
    newest = session.exec(select(Job.fence).where(Job.id == attempt.job_id)).one()
    if fence != attempt.fence:
        raise StaleFence(attempt_id, fence)
    if attempt.state == AttemptState.ENDED:
        if attempt.outcome == ending.outcome and attempt.run_us == ending.run_us and attempt.claimed_us is not None:
            return standing(session, attempt_id)
        raise StaleFence(attempt_id, fence)
    if fence != newest or attempt.claimed_us is None:
        raise StaleFence(attempt_id, fence)
    before_claim_us = attempt.claimed_us - attempt.assigned_us
    prepare_us = before_claim_us + ending.prepare_us
    parts = intervals(ending.outcome, prepare_us, ending.run_us, ending.stop_us, ending.fault_us)
    _end(session, attempt, ending, parts, findings)
    return standing(session, attempt_id)


def lose(session: Session, attempt_id: str) -> None:
    """Give up an attempt whose node is gone. It counts up to the last acknowledged heartbeat; devices stay dirty."""
    attempt = _lock(session, attempt_id)
    if attempt.state == AttemptState.ENDED:
        return
    beat_us = session.exec(select(Node.last_beat_us).where(Node.id == attempt.node_id)).one() or 0
    held_us = max(0, beat_us - attempt.assigned_us)
    ending = Ending(Outcome.NODE_LOST, error="its node could not be reached any more")
    _end(session, attempt, ending, intervals(Outcome.NODE_LOST, held_us, 0, 0), {})


def withdraw(session: Session, attempt_id: str, outcome: Outcome = Outcome.UNCLAIMED) -> bool:
    """Take back an assignment that nobody claimed; its devices were never touched. False if it was claimed."""
    attempt = _lock(session, attempt_id)
    if attempt.state != AttemptState.ASSIGNED:
        return False
    held_us = max(0, now_us(session) - attempt.assigned_us)
    findings = {uuid: Finding(True, "", "ok", "") for uuid in _uuids(session, attempt_id)}
    _end(session, attempt, Ending(outcome), intervals(outcome, held_us, 0, 0), findings, was_touched=False)
    return True


def _lock(session: Session, attempt_id: str, node_id: str | None = None) -> Attempt:
    """Lock all that an end changes, in the order of `store.locks`, and read the attempt."""
    seen = session.get(Attempt, attempt_id)
    if seen is None or node_id not in (None, seen.node_id):
        raise NotFound("attempt")
    lock_nodes(session, [seen.node_id])
    lock_quotas(session, [seen.tenant_id])
    session.exec(select(Job.id).where(Job.id == seen.job_id).with_for_update()).one()
    return session.exec(
        select(Attempt).where(Attempt.id == attempt_id).with_for_update().execution_options(populate_existing=True)
    ).one()


def _end(
    session: Session,
    attempt: Attempt,
    ending: Ending,
    parts: Sequence[Interval],
    findings: Mapping[str, Finding],
    *,
    was_touched: bool = True,
) -> None:
    ended_us = Instant(attempt.assigned_us + (parts[-1].until_us if parts else 0))
    moved = session.execute(
        update(Attempt)
        .where(col(Attempt.id) == attempt.id, col(Attempt.state) == attempt.state)
        .values(
            state=next_attempt_state(AttemptState(attempt.state), AttemptEvent.END),
            outcome=ending.outcome,
            exit_code=ending.exit_code,
            error=ending.error or None,
            ended_us=ended_us,
            prepare_us=ending.prepare_us,
            run_us=ending.run_us,
            stop_us=ending.stop_us,
            isolation=attempt.isolation if ending.isolation is None else dict(ending.isolation),
            skipped=[dict(each) for each in ending.skipped],
        )
        .execution_options(synchronize_session=False)
    )
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        raise StaleFence(attempt.id, attempt.fence)
    _release(session, attempt, parts, findings, was_touched)
    record(
        session,
        "attempt_ended",
        tenant_id=attempt.tenant_id,
        job_id=attempt.job_id,
        attempt_id=attempt.id,
        node_id=attempt.node_id,
        fence=attempt.fence,
        text=_sentence(ending),
        data={"outcome": ending.outcome, "exit_code": ending.exit_code},
    )
    _conclude(session, attempt, ending, ended_us)


def _release(
    session: Session,
    attempt: Attempt,
    parts: Sequence[Interval],
    findings: Mapping[str, Finding],
    was_touched: bool,
) -> None:
    session.execute(
        update(Node)
        .where(col(Node.id) == attempt.node_id)
        .values(
            cpus_milli_used=Node.cpus_milli_used - attempt.cpus_milli,
            memory_bytes_used=Node.memory_bytes_used - attempt.memory_bytes,
            scratch_bytes_used=Node.scratch_bytes_used - attempt.scratch_bytes,
        )
    )
    allocations = session.exec(
        select(Allocation)
        .where(Allocation.attempt_id == attempt.id, col(Allocation.until_us).is_(None))
        .order_by(col(Allocation.gpu_id))
    ).all()
    give_back_gpus(session, attempt.tenant_id, [allocation.model for allocation in allocations])
    lines: list[LedgerEntry] = []
    for allocation in allocations:
        gpu = session.get_one(Gpu, allocation.gpu_id, with_for_update=True, populate_existing=True)
        finding = findings.get(gpu.uuid)
        gpu.used_milli -= allocation.share_milli
        gpu.generation += 1
        if was_touched and gpu.state != "absent":
            gpu.state = "clean" if finding and finding.is_clean else "dirty"
            gpu.state_reason = finding.reason if finding else "not looked at since its last holder"
        if was_touched and finding:
            gpu.health, gpu.health_reason = finding.health, finding.health_reason
        lines += close_allocation(session, allocation, attempt, parts)
    spend(session, attempt, lines)
    release(session, attempt.id)


def _conclude(session: Session, attempt: Attempt, ending: Ending, ended_us: Instant) -> None:
    """Move the job on after its attempt."""
    job = session.get_one(Job, attempt.job_id, populate_existing=True)
    is_platform = ending.outcome.is_platform_fault and ending.outcome not in FREE_RETRIES
    job.tries_by_platform += is_platform
    job.tries_by_tenant += not ending.outcome.is_platform_fault and ending.outcome not in NO_TRY
    rule = RetryRule(job.retry_limit, frozenset(job.retry_on))
    verdict = after(ending.outcome, ending.exit_code, rule, Tries(job.tries_by_tenant, job.tries_by_platform))
    if verdict.event in (JobEvent.REQUEUE, JobEvent.HOLD) and job.cancel_requested:
        verdict = Verdict(JobEvent.CANCEL, 0)
    job.state = next_job_state(JobState(job.state), verdict.event)
    if verdict.event in (JobEvent.REQUEUE, JobEvent.HOLD):
        return_to_queue(session, job.tenant_id)
        if verdict.event is JobEvent.HOLD:
            why = why_parked(session, job.tenant_id, job.key_id)
            job.reason_code, job.reason_text, job.reason_numbers = why.code, why.text, dict(why.numbers)
        job.not_before_us = now_us(session) + verdict.wait_us if verdict.wait_us else 0
        is_nodes_fault = is_platform or ending.outcome is Outcome.UNCLAIMED
        if is_nodes_fault and attempt.node_id not in job.avoid_nodes:
            job.avoid_nodes = [*job.avoid_nodes, attempt.node_id]
    else:
        leave_running(session, job.tenant_id)
        job.outcome, job.exit_code, job.error = ending.outcome, ending.exit_code, ending.error or None
        job.ended_us = ended_us
    leave_array(session, job.array_id)
    record(
        session,
        f"job_{job.state}",
        tenant_id=job.tenant_id,
        job_id=job.id,
        attempt_id=attempt.id,
        text=JobState(job.state).sentence,
        data={"event": verdict.event, "wait_us": verdict.wait_us},
    )
    if JobState(job.state).is_terminal:
        session.flush()
        settle(session, [Over(job.id, job.array_id, job.state == JobState.SUCCEEDED)])


def _uuids(session: Session, attempt_id: str) -> list[str]:
    query = select(Gpu.uuid).join(Allocation, col(Allocation.gpu_id) == Gpu.id)
    return list(session.exec(query.where(Allocation.attempt_id == attempt_id)))


def _sentence(ending: Ending) -> str:
    code = "" if ending.exit_code is None else f" with code {ending.exit_code}"
    return f"the attempt ended: {ending.outcome}{code}{': ' + ending.error if ending.error else ''}"
