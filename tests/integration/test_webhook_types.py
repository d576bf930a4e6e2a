"""Every type of event that webhooks are told of, from what causes it to the delivery."""

import json
from collections.abc import Callable, Mapping

import pytest
from builders import a_job, a_node, a_price, a_tenant, an_image
from purse_parts import HOUR, end, start
from sqlalchemy import Engine, update
from sqlmodel import Session, select

from domain.endings import Outcome
from domain.ids import TenantId
from domain.purse import Unit
from domain.webhooks import all_types
from store import image_blocks, images, quota_requests, requests, webhooks
from store.clock import now_us
from store.engine import reading, writing
from store.purses import open_purse
from store.quota_requests import Terms
from store.sealing import Sealed
from store.tables import Delivery, QuotaRequest

DIGEST = f"registry.test/a@sha256:{'a' * 64}"


def it_is_released(session: Session, tenant_id: str, _node_id: str) -> None:
    job_id = a_job(session, tenant_id)
    requests.hold(session, TenantId(tenant_id), job_id)
    requests.release(session, TenantId(tenant_id), job_id)


def it_is_held(session: Session, tenant_id: str, _node_id: str) -> None:
    requests.hold(session, TenantId(tenant_id), a_job(session, tenant_id))


def it_is_cancelled(session: Session, tenant_id: str, _node_id: str) -> None:
    requests.cancel(session, TenantId(tenant_id), a_job(session, tenant_id))


def it_starts(session: Session, tenant_id: str, node_id: str) -> None:
    start(session, a_job(session, tenant_id), node_id)


def it_succeeds(session: Session, tenant_id: str, node_id: str) -> None:
    end(session, start(session, a_job(session, tenant_id), node_id), HOUR)


def it_fails(session: Session, tenant_id: str, node_id: str) -> None:
    end(session, start(session, a_job(session, tenant_id), node_id), HOUR, Outcome.TIME_LIMIT)


def half_is_spent(session: Session, tenant_id: str, node_id: str) -> None:
    open_purse(session, tenant_id, tenant_id, Unit.MONEY, 150_000_000)
    end(session, start(session, a_job(session, tenant_id), node_id), HOUR)


def more_is_asked(session: Session, tenant_id: str) -> tuple[str, Terms]:
    terms = Terms(1000, 0, now_us(session) + HOUR)
    return quota_requests.ask(session, TenantId(tenant_id), "*", terms, "a deadline", "key_x").id, terms


def more_is_granted(session: Session, tenant_id: str, _node_id: str) -> None:
    asked, terms = more_is_asked(session, tenant_id)
    quota_requests.grant(session, asked, terms, "", "key_admin")


def more_is_refused(session: Session, tenant_id: str, _node_id: str) -> None:
    quota_requests.refuse(session, more_is_asked(session, tenant_id)[0], "no", "key_admin")


def a_grant_ends(session: Session, tenant_id: str, node_id: str) -> None:
    asked, terms = more_is_asked(session, tenant_id)
    quota_requests.grant(session, asked, terms, "", "key_admin")
    session.execute(update(QuotaRequest).values(until_us=2))
    quota_requests.end_due(session, asked)


def an_image_is_for_it(session: Session, tenant_id: str, _node_id: str) -> None:
    images.admit_image(session, "a", DIGEST, None, None, [])
    images.allow_image(session, "a", [tenant_id])


def its_image_is_blocked(session: Session, tenant_id: str, _node_id: str) -> None:
    an_image(session, "a", "engine", DIGEST)
    image_blocks.block(session, DIGEST, "a hole in it", is_to_stop=False)


CAUSES: Mapping[str, Callable[[Session, str, str], None]] = {
    "job.queued": it_is_released,
    "job.held": it_is_held,
    "job.cancelled": it_is_cancelled,
    "job.started": it_starts,
    "job.succeeded": it_succeeds,
    "job.failed": it_fails,
    "budget.warning": half_is_spent,
    "quota.granted": more_is_granted,
    "quota.refused": more_is_refused,
    "quota.ended": a_grant_ends,
    "image.allowed": an_image_is_for_it,
    "image.blocked": its_image_is_blocked,
}


def a_webhook(session: Session, tenant_id: str, *types: str) -> str:
    id = f"whk_{tenant_id}"
    webhooks.create(session, TenantId(tenant_id), id, "https://hook.test/x", None, types, Sealed(b"", b""))
    return id


def told(engine: Engine, tenant_id: str) -> list[str]:
    with reading(engine) as session:
        found = session.exec(select(Delivery).where(Delivery.tenant_id == tenant_id).order_by(Delivery.id)).all()
        assert all(json.loads(each.body)["type"] == each.type for each in found)
        assert all(json.loads(each.body)["data"]["text"] for each in found)
        return [each.type for each in found]


def test_every_type_has_a_cause() -> None:
    assert sorted(CAUSES) == all_types()


@pytest.mark.parametrize("type", sorted(CAUSES))
def test_what_happens_is_delivered_to_its_tenant_and_to_no_other(engine: Engine, type: str) -> None:
    with writing(engine) as session:
        tenant_id, other = a_tenant(session), a_tenant(session, "other")
        node_id = a_node(session)
        a_price(session, 100_000_000)
        a_webhook(session, tenant_id, type)
        if type != "image.blocked":
            a_webhook(session, other)
    with writing(engine) as session:
        CAUSES[type](session, tenant_id, node_id)
    assert told(engine, tenant_id) == [type]
    assert told(engine, other) == []


def test_news_of_a_restricted_image_reach_only_who_may_use_it(engine: Engine) -> None:
    with writing(engine) as session:
        lab, other = a_tenant(session), a_tenant(session, "other")
        team = a_tenant(session, "team", parent=lab)
        for each in (lab, other, team):
            a_webhook(session, each)
        images.admit_image(session, "a", DIGEST, None, None, [lab])
    with writing(engine) as session:
        images.allow_image(session, "a", [lab, team])  # nothing new for either
    with writing(engine) as session:
        image_blocks.block(session, DIGEST, "a hole in it", is_to_stop=False)
    assert told(engine, lab) == told(engine, team) == ["image.allowed", "image.blocked"]
    assert told(engine, other) == []
    with writing(engine) as session:
        images.allow_image(session, "a", None)
    assert told(engine, other) == ["image.allowed"]
    assert told(engine, lab) == ["image.allowed", "image.blocked"]
