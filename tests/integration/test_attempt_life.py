"""The life of an attempt in the database: every step guarded, every count exact."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from books import assert_books_agree
from builders import a_job, a_node, a_placement, a_price, a_tenant, some_rules
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, select

from domain.endings import Outcome
from domain.errors import InvalidTransition, NotFound, StaleFence
from domain.states import AttemptState, JobState
from store import assignments, attempts, ends, ledger, quota_settings, requests
from store.assignments import Assigned, PlacementRefused
from store.ends import Ending, Finding
from store.engine import reading, writing
from store.tables import Allocation, Attempt, Gpu, Job, Node

CLEAN = Finding(True, "", "ok", "")
EXITED = Ending(Outcome.EXITED, exit_code=0, prepare_us=1_000, run_us=2_000_000, stop_us=500)


def an_assigned(engine: Engine, gpus: int = 2, **job: object) -> tuple[Assigned, str]:
    """A tenant, a node and a job of so many GPUs that is assigned to it."""
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        node_id = a_node(session)
        job_id = a_job(session, tenant_id, gpus=gpus, **job)
        assigned = assign(session, job_id, node_id)
    return assigned, job_id


def assign(session: Session, job_id: str, node_id: str) -> Assigned:
    placement = a_placement(session, job_id, node_id)
    assignments.lock_for(session, [placement])
    return assignments.assign(session, placement)


def end(session: Session, assigned: Assigned, ending: Ending = EXITED, clean: bool = True) -> attempts.Standing:
    uuids = session.exec(
        select(Gpu.uuid)
        .join(Allocation, Allocation.gpu_id == Gpu.id)
        .where(Allocation.attempt_id == assigned.attempt_id)
    ).all()
    findings = dict.fromkeys(uuids, CLEAN) if clean else {}
    return ends.ended(session, assigned.node_id, assigned.attempt_id, assigned.fence, ending, findings)


def test_a_job_goes_from_queued_to_succeeded_and_its_time_is_posted(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with writing(engine) as session:
        a_price(session, 3_600_000_000)
    with writing(engine) as session:
        claimed = attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        assert len(claimed.devices) == 2
    with writing(engine) as session:
        attempts.started(session, assigned.node_id, assigned.attempt_id, assigned.fence, 1_000, {"level": "process"})
    with writing(engine) as session:
        assert end(session, assigned).state is AttemptState.ENDED
    with reading(engine) as session:
        job = session.get_one(Job, job_id)
        assert (job.state, job.exit_code) == (JobState.SUCCEEDED, 0)
        entries = ledger.entries_of_job(session, job_id)
        assert [entry.cause for entry in entries] == ["preparing", "running", "stopping"] * 2
        attempt = session.get_one(Attempt, assigned.attempt_id)
        assert attempt.ended_us == (attempt.claimed_us or 0) + 1_000 + 2_000_000 + 500
        assert_books_agree(session)


def test_each_report_may_be_sent_twice(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    for _ in range(2):
        with writing(engine) as session:
            attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
    for _ in range(2):
        with writing(engine) as session:
            attempts.started(session, assigned.node_id, assigned.attempt_id, assigned.fence, 1_000, {})
    for _ in range(2):
        with writing(engine) as session:
            end(session, assigned)
    with reading(engine) as session:
        assert len(ledger.entries_of_job(session, job_id)) == 6
        assert_books_agree(session)


def test_a_stale_fence_changes_nothing(engine: Engine) -> None:
    assigned, _ = an_assigned(engine)
    for wrong in (assigned.fence - 1, assigned.fence + 1):
        with pytest.raises(StaleFence), writing(engine) as session:
            attempts.claim(session, assigned.node_id, assigned.attempt_id, wrong)
    with pytest.raises(NotFound), writing(engine) as session:
        attempts.claim(session, "nod_other", assigned.attempt_id, assigned.fence)
    with reading(engine) as session:
        assert session.get_one(Attempt, assigned.attempt_id).state == "assigned"


def test_after_it_was_lost_the_old_worker_is_told_so_and_the_job_runs_elsewhere(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
    with writing(engine) as session:
        ends.lose(session, assigned.attempt_id)
        job = session.get_one(Job, job_id)
        assert job.state == JobState.QUEUED
        assert job.avoid_nodes == [assigned.node_id]
        assert {gpu.state for gpu in session.exec(select(Gpu).where(Gpu.generation > 1))} == {"dirty"}
        other = a_node(session, "node-2")
        again = assign(session, job_id, other)
    with pytest.raises(StaleFence), writing(engine) as session:
        end(session, assigned)
    with writing(engine) as session:
        attempts.claim(session, again.node_id, again.attempt_id, again.fence)
        end(session, again)
    with reading(engine) as session:
        charged = {entry.attempt_id: entry.price_micro_per_gpu_hour for entry in ledger.entries_of_job(session, job_id)}
        assert session.get_one(Job, job_id).state == JobState.SUCCEEDED
        assert set(charged) <= {assigned.attempt_id, again.attempt_id}
        assert_books_agree(session)


def test_an_unclaimed_assignment_goes_back_to_the_queue_with_clean_devices(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with writing(engine) as session:
        assert ends.withdraw(session, assigned.attempt_id)
    with pytest.raises(StaleFence), writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
    with reading(engine) as session:
        assert session.get_one(Job, job_id).state == JobState.QUEUED
        assert {gpu.state for gpu in session.exec(select(Gpu))} == {"clean"}
        assert_books_agree(session)


def test_a_claimed_assignment_is_not_withdrawn(engine: Engine) -> None:
    assigned, _ = an_assigned(engine)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        assert not ends.withdraw(session, assigned.attempt_id)


@pytest.mark.parametrize("step", ["queued", "held", "assigned", "claimed", "started", "stopping"])
def test_cancelling_is_legal_wherever_the_job_stands(engine: Engine, step: str) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
        job_id = a_job(session, tenant_id)
        if step == "held":
            requests.hold(session, None, job_id)
        assigned = assign(session, job_id, node_id) if step not in ("queued", "held") else None
        if assigned and step != "assigned":
            attempts.claim(session, node_id, assigned.attempt_id, assigned.fence)
        if assigned and step in ("started", "stopping"):
            attempts.started(session, node_id, assigned.attempt_id, assigned.fence, 10, {})
        if assigned and step == "stopping":
            attempts.order_stop(session, assigned.attempt_id, "preempted")
    with writing(engine) as session:
        done = requests.cancel(session, None, job_id)
    if step in ("queued", "held", "assigned"):
        assert done.stop is None
    else:
        assert assigned
        with writing(engine) as session:
            end(session, assigned, Ending(Outcome.CANCELLED, 143, run_us=5))
    with reading(engine) as session:
        assert session.get_one(Job, job_id).state == JobState.CANCELLED
        assert_books_agree(session)


def test_a_platform_fault_after_a_cancel_ends_the_job_as_cancelled(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        requests.cancel(session, None, job_id)
        ends.lose(session, assigned.attempt_id)
    with reading(engine) as session:
        assert session.get_one(Job, job_id).state == JobState.CANCELLED
        assert_books_agree(session)


def test_another_tenants_job_is_not_found(engine: Engine) -> None:
    with writing(engine) as session:
        mine, other = a_tenant(session), a_tenant(session, "other")
        job_id = a_job(session, other)
    for ask in (requests.cancel, requests.hold, requests.release):
        with pytest.raises(NotFound), writing(engine) as session:
            ask(session, mine, job_id)  # type: ignore[arg-type]


def test_a_running_job_cannot_be_held_nor_a_finished_one_cancelled(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with pytest.raises(InvalidTransition), writing(engine) as session:
        requests.hold(session, None, job_id)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        end(session, assigned)
    with pytest.raises(InvalidTransition), writing(engine) as session:
        requests.cancel(session, None, job_id)


def test_a_device_is_never_given_twice(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session, gpus=1)
        first, second = a_job(session, tenant_id), a_job(session, tenant_id)
        same = [a_placement(session, job_id, node_id) for job_id in (first, second)]
        assignments.lock_for(session, same)
        assignments.assign(session, same[0])
        with pytest.raises(PlacementRefused), session.begin_nested():
            assignments.assign(session, same[1])
    with reading(engine) as session:
        assert session.get_one(Job, second).state == JobState.QUEUED
        assert_books_agree(session)


def test_the_database_itself_refuses_two_holders_of_a_device(engine: Engine) -> None:
    an_assigned(engine, gpus=1)
    with reading(engine) as session:
        held = session.exec(select(Allocation)).one()
    twice = (
        "INSERT INTO allocation SELECT 'all_x', attempt_id, gpu_id, tenant_id, model, share_milli, "
        "price_micro_per_gpu_hour, from_us, until_us, posted_until_us FROM allocation WHERE id = :id"
    )
    with pytest.raises(DBAPIError), writing(engine) as session:
        session.connection().execute(text(twice), {"id": held.id})


@pytest.mark.parametrize("column", ["gpu_used_milli", "running_used"])
def test_the_database_itself_refuses_growth_beyond_a_quota_and_nothing_else(engine: Engine, column: str) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session, gpus=2, most_running=2000)
    grow = text(f"UPDATE quota SET {column} = {column} + 1500 WHERE tenant_id = :id AND model = '*'")
    with writing(engine) as session:
        session.connection().execute(grow, {"id": tenant_id})
    with pytest.raises(DBAPIError), writing(engine) as session:
        session.connection().execute(grow, {"id": tenant_id})
    with writing(engine) as session:
        quota_settings.set_quota(session, tenant_id, some_rules(gpus=1, most_running=1))  # below its use: allowed
        session.connection().execute(
            text(f"UPDATE quota SET {column} = {column} - 1 WHERE tenant_id = :id AND model = '*'"), {"id": tenant_id}
        )


def test_a_parents_bound_holds_for_all_below_it(engine: Engine) -> None:
    with writing(engine) as session:
        parent = a_tenant(session, "org", gpus=3)
        teams = [a_tenant(session, f"team-{n}", gpus=8, parent=parent) for n in range(2)]
        node_id = a_node(session)
        jobs = [a_job(session, team, gpus=2) for team in teams]
        assign(session, jobs[0], node_id)
        with pytest.raises(PlacementRefused), session.begin_nested():
            assign(session, jobs[1], node_id)
    with reading(engine) as session:
        assert_books_agree(session)


def test_the_ledger_cannot_be_edited_and_a_forged_line_is_named(engine: Engine) -> None:
    assigned, job_id = an_assigned(engine)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        end(session, assigned)
    for statement in ("UPDATE ledger_entry SET cost_micro = 0", "DELETE FROM ledger_entry"):
        with pytest.raises(DBAPIError), writing(engine) as session:
            session.connection().execute(text(statement))
    with writing(engine) as session:
        tenant_id = session.get_one(Job, job_id).tenant_id
        name = (
            "ledger_entry_no_update" if engine.dialect.name == "sqlite" else "ledger_entry_append_only ON ledger_entry"
        )
        session.connection().execute(text(f"DROP TRIGGER {name}"))
        session.connection().execute(text("UPDATE ledger_entry SET duration_us = 1 WHERE seq = 3"))
    with reading(engine) as session:
        flaw = ledger.verify(session, tenant_id)[1]
        assert flaw is not None
        assert (flaw.seq, flaw.kind) == (3, "edited")


def test_long_allocations_are_posted_hourly_and_corrected_if_the_platform_failed(engine: Engine) -> None:
    hour = 3_600_000_000
    assigned, job_id = an_assigned(engine, gpus=1)
    with writing(engine) as session:
        attempts.claim(session, assigned.node_id, assigned.attempt_id, assigned.fence)
        attempts.started(session, assigned.node_id, assigned.attempt_id, assigned.fence, 0, {})
        attempt = session.get_one(Attempt, assigned.attempt_id)
        attempt.assigned_us -= 3 * hour  # as if it had begun three hours ago
        attempt.claimed_us = attempt.started_us = attempt.assigned_us + 10
        allocation = session.exec(select(Allocation)).one()
        allocation.from_us = allocation.posted_until_us = attempt.assigned_us
    with writing(engine) as session:
        assert ledger.post_open(session) == 1
        assert ledger.post_open(session) == 0
        posted_us = sum(entry.duration_us for entry in ledger.entries_of_job(session, job_id))
        beat_us = session.exec(select(Node.last_beat_us)).one()
        assert posted_us == (beat_us or 0) - session.exec(select(Allocation.from_us)).one()
    with writing(engine) as session:
        end(session, assigned, Ending(Outcome.SANDBOX_ERROR, None, run_us=3 * hour))
    with reading(engine) as session:
        by_cause: dict[str, int] = {}
        for entry in ledger.entries_of_job(session, job_id):
            by_cause[entry.cause] = by_cause.get(entry.cause, 0) + entry.duration_us
        assert by_cause["running"] == by_cause["preparing"] == 0
        assert by_cause["platform_fault"] == 3 * hour + 10
        assert_books_agree(session)


def test_200_placements_at_once_never_pass_a_quota_of_8(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session, gpus=8)
        nodes = [a_node(session, f"node-{n}", gpus=8) for n in range(4)]
        jobs = [a_job(session, tenant_id) for _ in range(40)]
    highest, done = [], threading.Event()

    def place(number: int) -> bool:
        try:
            with writing(engine) as session:
                assign(session, jobs[number % len(jobs)], nodes[number % 4])
        except PlacementRefused:
            return False
        return True

    def watch() -> None:
        while not done.is_set():
            with reading(engine) as session:
                highest.append(len(session.exec(select(Allocation.id).where(Allocation.until_us.is_(None))).all()))
            done.wait(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(16) as pool:
        placed = sum(pool.map(place, range(200)))
    done.set()
    watcher.join()
    assert placed == 8
    assert max(highest) <= 8
    with reading(engine) as session:
        assert_books_agree(session)


def test_cancel_and_end_at_once_leave_one_state_and_one_closed_interval(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session), a_node(session)
    with ThreadPoolExecutor(2) as pool:
        for _ in range(30):
            with writing(engine) as session:
                job_id = a_job(session, tenant_id)
                assigned = assign(session, job_id, node_id)
                attempts.claim(session, node_id, assigned.attempt_id, assigned.fence)
            both = threading.Barrier(2)

            def ask_cancel(job_id: str = job_id, both: threading.Barrier = both) -> None:
                both.wait()
                try:
                    with writing(engine) as session:
                        requests.cancel(session, None, job_id)
                except InvalidTransition:
                    return

            def report_end(assigned: Assigned = assigned, both: threading.Barrier = both) -> None:
                both.wait()
                with writing(engine) as session:
                    end(session, assigned)

            for future in [pool.submit(ask_cancel), pool.submit(report_end)]:
                future.result()
            with reading(engine) as session:
                assert session.get_one(Job, job_id).state in ("succeeded", "cancelled")
                assert session.exec(select(Allocation).where(Allocation.until_us.is_(None))).all() == []
    with reading(engine) as session:
        assert_books_agree(session)
