"""One leader at a time, and no harm from the one before."""

import threading

import pytest
from builders import a_tenant
from sqlalchemy import Engine
from sqlmodel import select

from control.leadership import LEASE_SECONDS, Leadership
from domain.errors import StaleLeader
from store.engine import reading, writing
from store.leader import Lease, check_epoch, read_lease, take_lease
from store.tables import Tenant


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def overtake(engine: Engine, other: Leadership, clock: Clock) -> int:
    """Let `other` see silence for the length of the lease, and lead."""
    assert other.step() is None
    clock.now += LEASE_SECONDS
    epoch = other.step()
    assert epoch is not None
    return epoch


def test_the_first_leads_at_once_and_goes_on_leading(engine: Engine, clock: Clock) -> None:
    leader = Leadership(engine, "one", clock)
    epoch = leader.step()
    assert epoch is not None
    clock.now += LEASE_SECONDS * 100
    assert leader.step() == epoch


def test_a_standby_waits_as_long_as_the_beat_rises(engine: Engine, clock: Clock) -> None:
    leader, standby = Leadership(engine, "one", clock), Leadership(engine, "two", clock)
    leader.step()
    for _ in range(10):
        leader.step()
        assert standby.step() is None
        clock.now += LEASE_SECONDS - 1


def test_a_silent_leader_is_overtaken_after_the_lease_and_not_before(engine: Engine, clock: Clock) -> None:
    leader, standby = Leadership(engine, "one", clock), Leadership(engine, "two", clock)
    first = leader.step()
    assert standby.step() is None
    clock.now += LEASE_SECONDS - 0.1
    assert standby.step() is None
    clock.now += 0.1
    second = standby.step()
    assert first is not None
    assert second == first + 1
    assert leader.step() is None  # it notices, and stands by


def test_only_one_of_many_takes_over(engine: Engine, clock: Clock) -> None:
    Leadership(engine, "gone", clock).step()
    standbys = [Leadership(engine, f"standby-{number}", clock) for number in range(8)]
    assert all(each.step() is None for each in standbys)
    clock.now += LEASE_SECONDS
    threads = [threading.Thread(target=each.step) for each in standbys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(each.epoch is not None for each in standbys) == 1


def test_after_a_clean_stop_the_next_leads_at_once(engine: Engine, clock: Clock) -> None:
    leader, standby = Leadership(engine, "one", clock), Leadership(engine, "two", clock)
    leader.step()
    assert standby.step() is None
    leader.step_down()
    assert standby.step() is not None


def test_stepping_down_after_being_overtaken_changes_nothing(engine: Engine, clock: Clock) -> None:
    leader, standby = Leadership(engine, "one", clock), Leadership(engine, "two", clock)
    leader.step()
    epoch = overtake(engine, standby, clock)
    leader.step_down()
    assert standby.step() == epoch


def test_the_old_leader_cannot_commit_any_more(engine: Engine, clock: Clock) -> None:
    old, new = Leadership(engine, "old", clock), Leadership(engine, "new", clock)
    stale = old.step()
    assert stale is not None
    current = overtake(engine, new, clock)

    def commit_under(epoch: int, name: str) -> None:
        with writing(engine) as session:
            a_tenant(session, name)
            check_epoch(session, epoch)

    with pytest.raises(StaleLeader):
        commit_under(stale, "by-the-old")
    commit_under(current, "by-the-new")
    with reading(engine) as session:
        assert session.exec(select(Tenant.name)).all() == ["by-the-new"]


def test_a_takeover_waits_for_the_commit_under_way_and_comes_after_it(engine: Engine, clock: Clock) -> None:
    """Nobody can pass the check, be overtaken, and commit afterwards."""
    leader = Leadership(engine, "old", clock)
    epoch = leader.step()
    assert epoch is not None
    with reading(engine) as session:
        lease = read_lease(session)
    assert lease is not None
    is_checked, order = threading.Event(), []

    def take() -> None:
        is_checked.wait(10)
        with writing(engine) as session:
            assert take_lease(session, "new", lease) == epoch + 1
            order.append("taken")

    thread = threading.Thread(target=take)
    thread.start()
    with writing(engine) as session:
        check_epoch(session, epoch)
        is_checked.set()
        thread.join(0.3)  # it has the time to overtake, if it could
        a_tenant(session, "last")
        order.append("committing")
    thread.join(10)
    assert order == ["committing", "taken"]


def test_a_lease_that_moved_since_it_was_seen_is_not_taken(engine: Engine, clock: Clock) -> None:
    leader = Leadership(engine, "one", clock)
    leader.step()
    with reading(engine) as session:
        seen = read_lease(session)
    assert seen is not None
    leader.step()
    with writing(engine) as session:
        assert take_lease(session, "two", seen) is None
    with reading(engine) as session:
        assert read_lease(session) == Lease("one", seen.epoch, seen.beat + 1)
