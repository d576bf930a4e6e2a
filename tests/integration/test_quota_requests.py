"""More for a time: asked for, granted, counted while in force, and ended by itself; and what a change would do."""

from dataclasses import replace

import pytest
from books import assert_books_agree
from builders import a_job, a_node, a_price, a_tenant, some_rules
from purse_parts import end
from purse_parts import start as start_running
from quota_parts import a_team, gpus, start, started
from sqlalchemy import Engine, update
from sqlmodel import Session, select

from control.dispatcher import Dispatcher
from control.sweeper import Sweeper
from domain.errors import GuaranteesExceedLimit, Invalid, InvalidTransition, NotFound
from domain.ids import TenantId
from domain.quota_terms import QuotaRules
from store import quota_requests
from store.clock import now_us
from store.engine import reading, writing
from store.leader import ensure_lease, read_lease, take_lease
from store.quota_previews import preview
from store.quota_requests import Terms
from store.quota_settings import quota_rows, set_quota
from store.tables import AuditEntry, Event, Job, Quota, QuotaRequest

HOUR = 3_600_000_000


class Silence:
    """Says nothing to anybody."""

    def wake(self) -> None: ...
    def launch(self, *_: object) -> None: ...
    def stop(self, *_: object) -> None: ...
    def changed(self, *_: object) -> None: ...


def an_epoch(engine: Engine) -> int:
    with writing(engine) as session:
        ensure_lease(session)
        seen = read_lease(session)
        assert seen is not None
        epoch = take_lease(session, "me", seen)
    assert epoch is not None
    return epoch


def asked(session: Session, tenant_id: str, *, limit: int = 0, guaranteed: int = 0, model: str = "*") -> str:
    terms = Terms(limit * 1000, guaranteed * 1000, now_us(session) + HOUR)
    return quota_requests.ask(session, TenantId(tenant_id), model, terms, "a deadline", "key_x").id


def granted(session: Session, request_id: str, **changes: int) -> QuotaRequest:
    found = quota_requests.terms_of(quota_requests.request(session, None, request_id))
    terms = Terms(**{"limit_milli": found.limit_milli, "guaranteed_milli": found.guaranteed_milli,
                     "until_us": found.until_us, **changes})  # fmt: skip
    return quota_requests.grant(session, request_id, terms, "", "key_admin")


def let_its_time_pass(engine: Engine) -> None:
    """As if the end of every grant had come, and nobody had looked since."""
    with writing(engine) as session:
        session.execute(update(QuotaRequest).values(until_us=2))
        session.execute(update(Quota).where(Quota.grants_until_us.is_not(None)).values(grants_until_us=2))


def ceiling(session: Session, tenant_id: str, model: str = "*") -> int | None:
    found = quota_rows(session, tenant_id)[model].gpu_ceiling_milli
    return None if found is None else found // 1000


def test_a_grant_adds_while_it_is_in_force_and_ends_by_itself(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, node_id = a_tenant(session, gpus=1), a_node(session)
        request_id = asked(session, tenant_id, limit=2)
        assert ceiling(session, tenant_id) == 1
        granted(session, request_id)
        assert ceiling(session, tenant_id) == 3
    assert started(engine, tenant_id, node_id, 3) == 3
    let_its_time_pass(engine)
    Sweeper(engine, Silence(), an_epoch(engine)).sweep()
    with reading(engine) as session:
        assert ceiling(session, tenant_id) == 1, "what runs beyond it goes on"
        assert session.get_one(QuotaRequest, request_id).state == "ended"
        told = session.exec(select(Event.what).where(Event.what.like("quota_%")).order_by(Event.id)).all()
        assert told[-3:] == ["quota_requested", "quota_granted", "quota_grant_ended"]
        assert session.exec(select(AuditEntry.what).where(AuditEntry.target == request_id)).all() == told[-1:]
        assert_books_agree(session)
    assert started(engine, tenant_id, node_id, 1) == 0


def test_nothing_starts_by_a_grant_that_is_over_though_nobody_swept(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(0))
        team = a_team(session, "team", org, any_=gpus(8))
        node_id = a_node(session)
        granted(session, asked(session, org, limit=4))
    assert started(engine, team, node_id, 2) == 2
    let_its_time_pass(engine)
    assert started(engine, team, node_id, 2) == 0
    with reading(engine) as session:
        assert ceiling(session, org) == 4, "it is still counted, and not used"
        assert_books_agree(session)


def test_a_grant_of_a_model_counts_in_all_models_and_may_guarantee(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(8))
        team = a_team(session, "team", org, any_=gpus(2), H100=gpus(2, lendable=0))
        granted(session, asked(session, team, model="H100", limit=2, guaranteed=2))
        assert (ceiling(session, team), ceiling(session, team, "H100")) == (4, 4)
        assert quota_rows(session, org)["H100"].gpu_reserved_milli == 2000
        with pytest.raises(GuaranteesExceedLimit), session.begin_nested():
            granted(session, asked(session, team, limit=7, guaranteed=7))
    with reading(engine) as session:
        assert_books_agree(session)


def test_an_admin_grants_less_or_refuses_and_who_asked_may_take_it_back(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id = a_tenant(session, gpus=1)
        less, refused, withdrawn = (asked(session, tenant_id, limit=4) for _ in range(3))
        assert granted(session, less, limit_milli=1000).limit_milli == 1000
        assert quota_requests.refuse(session, refused, "no room", "key_admin").answer == "no room"
        assert quota_requests.withdraw(session, TenantId(tenant_id), withdrawn).state == "withdrawn"
        assert ceiling(session, tenant_id) == 2
        for over in (refused, withdrawn):
            with pytest.raises(InvalidTransition):
                granted(session, over)
        with pytest.raises(InvalidTransition):
            quota_requests.refuse(session, less, "late", "key_admin")
        assert quota_requests.withdraw(session, TenantId(tenant_id), less).state == "ended"
        assert ceiling(session, tenant_id) == 1
        for terms in (Terms(0, 0, now_us(session) + HOUR), Terms(1000, 0, now_us(session))):
            with pytest.raises(Invalid):
                quota_requests.ask(session, TenantId(tenant_id), "*", terms, "why", "key_x")


def test_a_request_is_seen_from_above_and_not_from_beside(engine: Engine) -> None:
    with writing(engine) as session:
        org, other = a_tenant(session, "org"), a_tenant(session, "other")
        team = a_tenant(session, "team", parent=org)
        request_id = asked(session, team, limit=1)
        for scope in (None, TenantId(org), TenantId(team)):
            assert [each.id for each in quota_requests.requests(session, scope, None, 10, None)] == [request_id]
        assert quota_requests.requests(session, TenantId(other), None, 10, None) == []
        for ask in (quota_requests.request, quota_requests.withdraw):
            with pytest.raises(NotFound):
                ask(session, TenantId(other), request_id)


def test_a_preview_is_what_happens_once_it_is_set(engine: Engine) -> None:
    with writing(engine) as session:
        org = a_team(session, "org", None, any_=gpus(4))
        team = a_team(session, "team", org, any_=gpus(1))
        rival = a_team(session, "rival", org, any_=gpus(4))
        node_id = a_node(session)
        start(session, a_job(session, team), node_id)
        queue = [a_job(session, of) for of in (team, team, rival, rival, rival, rival)]
    rules = QuotaRules(gpus={"*": gpus(3, guaranteed=3, lendable=0)}, isolation_levels=("process",))
    with reading(engine) as session:
        found = preview(session, None, TenantId(team), rules)
        assert quota_rows(session, team)["*"].gpu_promised_milli == 0, "nothing is stored"
    assert found.over == []
    assert set(found.difference.starts) == set(queue[:2])
    assert len(found.difference.waits) == 2
    assert {reason.code for reason in found.difference.waits.values()} == {"quota_gpus"}
    with writing(engine) as session:
        set_quota(session, team, rules)
    Dispatcher(engine, Silence(), an_epoch(engine)).run_pass()
    with reading(engine) as session:
        waiting = {job.id: job.reason_code for job in session.exec(select(Job).where(Job.state == "queued"))}
        assert waiting.keys() == found.difference.waits.keys() | found.difference.keeps_waiting.keys() | {
            job_id for job_id in queue if job_id in waiting and job_id not in found.difference.starts
        }
        assert not set(found.difference.starts) & set(waiting)
        for job_id, reason in found.difference.waits.items():
            assert waiting[job_id] == reason.code
        assert_books_agree(session)


def test_a_preview_counts_what_a_month_may_cost(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, other, node_id = a_tenant(session), a_tenant(session, "other"), a_node(session)
        a_price(session, 100_000_000)
        end(session, start_running(session, a_job(session, tenant_id), node_id), HOUR)
        free, dear = a_job(session, tenant_id, gpus=0), a_job(session, tenant_id)
        theirs = a_job(session, other)
    rules = replace(some_rules(), money_micro_per_month=150_000_000)
    with reading(engine) as session:
        assert list(preview(session, None, TenantId(tenant_id), some_rules()).difference.waits) == []
        found = preview(session, None, TenantId(tenant_id), rules).difference
    assert {job_id: reason.code for job_id, reason in found.waits.items()} == {dear: "month_money_short"}
    with writing(engine) as session:
        set_quota(session, tenant_id, rules)
    Dispatcher(engine, Silence(), an_epoch(engine)).run_pass()
    with reading(engine) as session:
        assert session.get_one(Job, dear).reason_text == found.waits[dear].text
        assert {session.get_one(Job, each).state for each in (free, theirs)} == {"running"}
        raised = preview(session, None, TenantId(tenant_id), replace(rules, money_micro_per_month=10**12)).difference
        gone = preview(session, None, TenantId(tenant_id), some_rules()).difference
        assert (raised.starts, gone.starts) == ([dear], [dear])


def test_a_preview_of_less_names_what_runs_beyond_it(engine: Engine) -> None:
    with writing(engine) as session:
        tenant_id, other, node_id = a_tenant(session, gpus=4), a_tenant(session, "other"), a_node(session)
        jobs = [a_job(session, tenant_id) for _ in range(3)]
        for job_id in jobs:
            start(session, job_id, node_id)
        waiting = a_job(session, tenant_id)
    with reading(engine) as session:
        found = preview(
            session, TenantId(tenant_id), TenantId(tenant_id), QuotaRules(gpus={"*": gpus(1)}, most_running=2)
        )
        assert [(each.row, each.limit, each.used) for each in found.over] == [("*", 1000, 3000), ("running", 2, 3)]
        assert [each.job_id for each in found.running] == jobs[:0:-1]
        assert list(found.difference.waits) == [waiting]
        with pytest.raises(NotFound):
            preview(session, TenantId(other), TenantId(tenant_id), QuotaRules())
