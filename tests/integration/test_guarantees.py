"""Guarantees, lending and borrowing in the database: what is kept for a tenant is there, whatever its siblings do."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from books import assert_books_agree
from builders import a_job, a_node, a_tenant
from quota_parts import a_team, gpus, start, started
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.errors import GuaranteesExceedLimit, Invalid, QuotaChanged
from domain.quota_terms import QuotaRules
from store import ends
from store.assignments import PlacementRefused
from store.engine import reading, writing
from store.quota_settings import quota_rows, set_quota
from store.tables import Attempt, Job, Quota, Tenant


def used(session: Session, tenant_id: str) -> tuple[int, int]:
    """Whole GPUs in use and reserved, of all models."""
    row = quota_rows(session, tenant_id)["*"]
    return row.gpu_used_milli // 1000, row.gpu_reserved_milli // 1000


def test_what_is_not_lent_stays_free_for_its_owner_and_the_rest_is_borrowed(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        owner = a_team(session, "owner", org, any_=gpus(8, guaranteed=4, lendable=1))
        borrower = a_team(session, "borrower", org, any_=gpus(8))
        node_id = a_node(session, gpus=16)
        assert used(session, org) == (0, 3)
    assert started(engine, borrower, node_id, 8) == 5
    assert started(engine, owner, node_id, 8) == 3
    with reading(engine) as session:
        assert used(session, org) == (8, 0)
        assert_books_agree(session)


def test_a_guarantee_is_kept_through_tenants_between_that_guarantee_nothing(engine: Engine) -> None:
    with writing(engine) as session:
        top = a_team(session, "top", None, any_=gpus(6))
        org = a_team(session, "org", top)
        team = a_team(session, "team", org, any_=gpus(4, guaranteed=4, lendable=0))
        other = a_team(session, "other", top, any_=gpus(6))
        node_id = a_node(session, gpus=8)
        assert used(session, top) == used(session, org) == (0, 4)
    assert started(engine, other, node_id, 6) == 2
    assert started(engine, team, node_id, 6) == 4
    with reading(engine) as session:
        assert_books_agree(session)


def test_a_guarantee_of_a_model_is_kept_in_all_models_too(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(4))
        owner = a_team(session, "owner", org, H100=gpus(guaranteed=2, lendable=0))
        other = a_team(session, "other", org)
        node_id, t4 = a_node(session), a_node(session, "node-2", model="T4")
    assert started(engine, other, t4, 4) == 2
    assert started(engine, owner, node_id, 4) == 2
    with reading(engine) as session:
        assert_books_agree(session)


def test_a_tenant_borrows_no_more_than_it_may(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        team = a_team(session, "team", org, any_=gpus(8, guaranteed=2, borrowable=1))
        node_id = a_node(session)
    assert started(engine, team, node_id, 8) == 3
    with writing(engine) as session:
        set_quota(session, team, QuotaRules(gpus={"*": gpus(8, guaranteed=2, borrowable=2)}))
    assert started(engine, team, node_id, 8) == 1


def test_what_is_kept_moves_with_the_quota_and_comes_back_when_devices_do(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        team = a_team(session, "team", org, any_=gpus(8, guaranteed=4, lendable=0))
        node_id = a_node(session)
    assert started(engine, team, node_id, 6) == 6
    with writing(engine) as session:
        assert used(session, org) == (6, 0)
        for attempt_id in session.exec(select(Attempt.id)).all()[:4]:
            assert ends.withdraw(session, attempt_id)
        assert used(session, org) == (2, 2)
        set_quota(session, team, QuotaRules(gpus={"*": gpus(8, guaranteed=3, lendable=0)}))
        assert used(session, org) == (2, 1)
        set_quota(session, team, QuotaRules())
        assert used(session, org) == (2, 0)
    with reading(engine) as session:
        assert_books_agree(session)


def test_an_owner_gets_its_own_though_its_parent_was_lowered_to_what_others_use(engine: Engine) -> None:
    """Raised under the borrowers' use, a guarantee waits for them, and then goes to its owner alone."""
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(4))
        owner = a_team(session, "owner", org, any_=gpus(4))
        other = a_team(session, "other", org, any_=gpus(4))
        node_id = a_node(session)
    assert started(engine, other, node_id, 4) == 4
    with writing(engine) as session:
        set_quota(session, owner, QuotaRules(gpus={"*": gpus(4, guaranteed=3, lendable=0)}))
    assert started(engine, owner, node_id, 1) == 0
    with writing(engine) as session:
        for attempt_id in session.exec(select(Attempt.id)).all()[:2]:
            assert ends.withdraw(session, attempt_id)
    assert started(engine, other, node_id, 2) == 0
    assert started(engine, owner, node_id, 3) == 2
    with reading(engine) as session:
        assert_books_agree(session)


def test_more_is_never_guaranteed_than_there_may_be(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        one = a_team(session, "one", org, any_=gpus(8, guaranteed=5))
        two = a_team(session, "two", org, any_=gpus(8, guaranteed=3))
    for tenant_id, terms in ((two, gpus(8, guaranteed=4)), (org, gpus(7))):
        with pytest.raises(GuaranteesExceedLimit), writing(engine) as session:
            set_quota(session, tenant_id, QuotaRules(gpus={"*": terms}))
    with pytest.raises(GuaranteesExceedLimit), writing(engine) as session:
        set_quota(session, one, QuotaRules(gpus={"H100": gpus(guaranteed=6)}))
    for terms in (gpus(2, guaranteed=3), gpus(4, guaranteed=2, lendable=3)):
        with pytest.raises(Invalid), writing(engine) as session:
            set_quota(session, one, QuotaRules(gpus={"*": terms}))
    with reading(engine) as session:
        assert quota_rows(session, two)["*"].gpu_promised_milli == 3000


def test_two_admins_do_not_overwrite_each_other(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session)
        version = quota_rows(session, tenant_id)["*"].version
    both, outcomes = threading.Barrier(2), []

    def change(limit: int) -> None:
        both.wait()
        try:
            with writing(engine) as session:
                set_quota(session, tenant_id, QuotaRules(gpus={"*": gpus(limit)}), version)
        except QuotaChanged:
            outcomes.append("refused")
        else:
            outcomes.append("set")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, (5, 6)))
    assert sorted(outcomes) == ["refused", "set"]


def test_siblings_that_race_to_borrow_leave_what_is_kept(engine: Engine) -> None:
    """Sampled all the while: no bound is passed on any level, and the owner's own is never taken."""
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        owner = a_team(session, "owner", org, any_=gpus(8, guaranteed=3, lendable=1))
        siblings = [a_team(session, f"team-{n}", org, any_=gpus(4, guaranteed=1, borrowable=2)) for n in range(3)]
        nodes = [a_node(session, f"node-{n}", gpus=8) for n in range(2)]
        jobs = {team: [a_job(session, team) for _ in range(6)] for team in siblings}
    orders = [(team, job, nodes[n % 2]) for n in range(6) for team in siblings for job in [jobs[team][n]]] * 3
    samples: list[Sequence[tuple[str, int, int, int | None]]] = []
    done = threading.Event()

    def place(order: tuple[str, str, str]) -> None:
        try:
            with writing(engine) as session:
                start(session, order[1], order[2])
        except PlacementRefused:
            return
        if len(samples) % 3 == 0:
            with writing(engine) as session:
                attempt = session.exec(select(Attempt.id).where(Attempt.job_id == order[1])).first()
                assert attempt is not None
                ends.withdraw(session, attempt)

    def watch() -> None:
        columns = (Quota.tenant_id, Quota.gpu_used_milli, Quota.gpu_reserved_milli, Quota.gpu_ceiling_milli)
        while not done.is_set():
            with reading(engine) as session:
                rows = session.exec(select(*columns).where(Quota.model == "*")).all()
                samples.append([tuple(row) for row in rows])
            done.wait(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(place, orders))
    done.set()
    watcher.join()
    for sample in samples:
        for tenant_id, in_use, reserved, ceiling in sample:
            assert ceiling is None or in_use + reserved <= ceiling, tenant_id
    assert started(engine, owner, nodes[0], 2) == 2
    with reading(engine) as session:
        assert_books_agree(session)
        assert session.exec(select(Job).where(Job.tenant_id == owner, Job.state == "running")).all()


def test_a_team_without_a_quota_of_its_own_has_what_its_organisation_has(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(2))
        team = Tenant(id="ten_team", name="team", parent_id=org, created_us=1)
        session.add(team)
        session.flush()
        session.add(Quota(tenant_id=team.id, model="*"))
        session.flush()
        set_quota(session, team.id, QuotaRules())
        node_id = a_node(session)
    assert started(engine, "ten_team", node_id, 3) == 2
