"""Webhooks over HTTP: made by a tenant's admin, told of that tenant's events alone, their secrets shown once."""

import json
from typing import Any

import pytest
from actors import Actor, a_job, a_key
from corral.webhooks import EventType
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.webhooks import all_types
from store.tables import Delivery, Webhook

URL = "https://hooks.example.com/corral"


def a_webhook(actor: Actor, *types: str, **more: Any) -> dict[str, Any]:
    return actor.made("/webhooks", {"url": URL, "types": list(types), **more})


def test_the_contract_has_every_type() -> None:
    assert list(EventType.__args__) == all_types()  # type: ignore[attr-defined]


def test_one_is_made_shown_changed_and_deleted(tenant: Actor) -> None:
    made = a_webhook(tenant, "job.failed", description="for people")
    assert made["secret"].startswith("whsec_")
    (listed,) = tenant.get("/webhooks").json()["items"]
    assert listed == {name: value for name, value in made.items() if name != "secret"}
    changed = tenant.send("PATCH", f"/webhooks/{made['id']}", json={"types": [], "state": "disabled"})
    assert (changed.json()["types"], changed.json()["state"], changed.json()["url"]) == ([], "disabled", URL)
    assert tenant.send("DELETE", f"/webhooks/{made['id']}").status_code == 204
    assert tenant.get(f"/webhooks/{made['id']}").status_code == 404


def test_its_secret_is_kept_sealed_and_shown_once(tenant: Actor, engine: Engine) -> None:
    once = a_key()
    made = tenant.post("/webhooks", {"url": URL}, headers=once).json()
    assert tenant.post("/webhooks", {"url": URL}, headers=once).json()["code"] == "secret_shown_once"
    rotated = tenant.post(f"/webhooks/{made['id']}/rotate").json()
    assert rotated["secret"] != made["secret"]
    with Session(engine) as session:
        kept = session.exec(select(Webhook)).one()
        assert kept.version == 2
        assert made["secret"].encode() not in kept.ciphertext
    shown = tenant.get("/webhooks").text + tenant.get("/audit").text
    assert made["secret"] not in shown
    assert rotated["secret"] not in shown


def test_what_happens_to_a_job_is_told_to_its_tenant_alone(tenant: Actor, rival: Actor, engine: Engine) -> None:
    every, failures = a_webhook(tenant), a_webhook(tenant, "job.failed")
    theirs = a_webhook(rival)
    job_id = tenant.made("/jobs", a_job())["id"]
    tenant.post(f"/jobs/{job_id}/cancel")
    told = list(reversed(tenant.get(f"/webhooks/{every['id']}/deliveries").json()["items"]))
    assert [(each["type"], each["state"]) for each in told] == [("job.queued", "pending"), ("job.cancelled", "pending")]
    assert tenant.get(f"/webhooks/{failures['id']}/deliveries").json()["items"] == []
    assert rival.get(f"/webhooks/{theirs['id']}/deliveries").json()["items"] == []
    with Session(engine) as session:
        body = json.loads(session.exec(select(Delivery.body)).first() or "")
    assert (body["tenant_id"], body["data"]["job_id"], body["version"]) == (tenant.tenant_id, job_id, 1)


def test_a_refused_job_tells_nothing(tenant: Actor) -> None:
    made = a_webhook(tenant)
    assert tenant.post("/jobs", a_job(image="none")).status_code == 422
    assert tenant.get(f"/webhooks/{made['id']}/deliveries").json()["items"] == []


def test_a_test_and_a_repeat(tenant: Actor) -> None:
    made = a_webhook(tenant, "job.failed")
    sent = tenant.post(f"/webhooks/{made['id']}/test").json()
    assert sent["type"] == "webhook.test"
    again = tenant.post(f"/webhooks/{made['id']}/deliveries/{sent['id']}/redeliver").json()
    assert (again["event_id"], again["state"]) == (sent["event_id"], "pending")
    assert again["id"] != sent["id"]
    assert len(tenant.get(f"/webhooks/{made['id']}/deliveries").json()["items"]) == 2


@pytest.mark.parametrize(
    "url", ["http://example.com/", "https://127.0.0.1/", "https://u:p@example.com/", "https://example.com:25/", ""]
)
def test_an_address_that_may_not_be_called_is_refused(tenant: Actor, url: str) -> None:
    assert tenant.post("/webhooks", {"url": url}).status_code == 422
    made = a_webhook(tenant)
    assert tenant.send("PATCH", f"/webhooks/{made['id']}", json={"url": url}).status_code == 422
    assert [each["url"] for each in tenant.get("/webhooks").json()["items"]] == [URL]


def test_a_tenant_has_a_bounded_number_of_them(tenant: Actor) -> None:
    for _ in range(20):
        a_webhook(tenant)
    assert tenant.post("/webhooks", {"url": URL}).json()["code"] == "limit"
