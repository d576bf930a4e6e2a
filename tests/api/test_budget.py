"""Budgets over HTTP: granted and topped up by admins, seen by whose they are, and told of."""

from typing import Any

import pytest
from actors import Actor, a_job, a_key
from actors import a_tenant as another_tenant
from node_actor import Worker, a_worker, place
from sqlalchemy import Engine

from domain.purse import MONTHLY, TOTAL, Unit
from store import purses
from store.engine import writing

PRICE = 3_600_000_000
SECOND = 1_000_000
"""Of one GPU, at that price, in millionths of the currency."""


@pytest.fixture
def worker(admin: Actor) -> Worker:
    assert admin.send("PUT", "/prices", json={"model": "*", "micro_per_gpu_hour": PRICE}).status_code == 200
    return a_worker(admin, admin.client)


def granted(admin: Actor, tenant: Actor, micro: int | None) -> dict[str, Any]:
    answer = admin.send("PUT", f"/tenants/{tenant.tenant_id}/budget", json={"total_micro": micro})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_tenant_sees_what_is_held_and_spent_and_until_when_it_lasts(
    admin: Actor, tenant: Actor, worker: Worker, engine: Engine
) -> None:
    granted(admin, tenant, 500 * SECOND)
    with writing(engine) as session:
        purses.set_bound(session, tenant.tenant_id, tenant.tenant_id, Unit.GPU_TIME, 300 * 3600 * SECOND, MONTHLY)
    job = tenant.made("/jobs", a_job(time_limit="1m", resources={"gpus": 1}))
    assigned = place(engine, worker, job["id"])
    total = purse_of(tenant, "money_micro", "")
    assert (total["bound"], total["spent"]) == (500 * SECOND, 0)
    assert total["held"] > 60 * SECOND
    assert total["left"] == total["bound"] - total["held"]
    worker.start(assigned)
    found = tenant.get("/budget").json()
    assert (found["running_micro_per_hour"], found["running_gpus_milli"]) == (PRICE, 1000)
    worker.end(assigned, run_us=2 * SECOND)
    total = purse_of(tenant, "money_micro", "")
    assert total["held"] == 0
    assert 2 * SECOND <= total["spent"] < 100 * SECOND
    found = tenant.get("/budget", params={"days": 3}).json()
    assert (len(found["days"]), len(found["purses"])) == (3, 2)
    assert found["days"][-1]["left_micro"] == 500 * SECOND - total["spent"]
    assert sum(day["cost_micro"] for day in found["days"]) == total["spent"]
    week_us = 7 * 24 * 3_600_000_000
    left = total["bound"] - total["spent"]
    assert total["spent_at_week"] == pytest.approx(found["as_of"] + left * week_us // total["spent"], abs=60_000_000)
    assert total["spent_at_running"] is None


def purse_of(actor: Actor, unit: str, period: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = actor.get("/budget").json()["purses"]
    return next(each for each in found if (each["unit"], each["period"]) == (unit, period))


def test_a_top_up_counts_once_and_may_take_back_but_never_below_nothing(admin: Actor, tenant: Actor) -> None:
    path = f"/tenants/{tenant.tenant_id}/budget/top-up"
    answer = admin.post(path, {"amount_micro": 5})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    granted(admin, tenant, 10)
    header = a_key()
    for _ in range(2):
        answer = admin.post(path, {"amount_micro": 5, "reason": "order 4711"}, headers=header)
        assert (answer.status_code, answer.json()["total_micro"]) == (201, 15)
    assert admin.post(path, {"amount_micro": -16}).status_code == 422
    assert admin.made(path, {"amount_micro": -15})["total_micro"] == 0
    assert tenant.get("/budget").json()["total_micro"] == 0


def test_a_budget_that_is_taken_away_bounds_nothing(admin: Actor, tenant: Actor) -> None:
    assert granted(admin, tenant, 7)["total_micro"] == 7
    assert granted(admin, tenant, None)["total_micro"] is None
    assert tenant.get("/budget").json()["purses"] == []


@pytest.mark.parametrize("body", [{"total_micro": -1}, {"total_micro": 2**63}, {}, {"total_micro": 1, "x": 1}])
def test_a_budget_that_no_column_holds_is_refused(admin: Actor, tenant: Actor, body: dict[str, int]) -> None:
    assert admin.send("PUT", f"/tenants/{tenant.tenant_id}/budget", json=body).status_code == 422
    assert tenant.get("/budget").json()["purses"] == []


def test_only_an_admin_grants_and_nobody_sees_anothers(admin: Actor, tenant: Actor, rival: Actor) -> None:
    granted(admin, tenant, 10)
    path = f"/tenants/{tenant.tenant_id}/budget"
    assert tenant.send("PUT", path, json={"total_micro": 20}).status_code == 403
    assert tenant.post(f"{path}/top-up", {"amount_micro": 20}).status_code == 403
    assert rival.get("/budget").json()["purses"] == []
    assert rival.get("/budget", params={"tenant_id": tenant.tenant_id}).status_code in (403, 404)
    assert admin.get("/budget", params={"tenant_id": tenant.tenant_id}).json()["total_micro"] == 10
    nobody = "ten_" + "0" * 26
    assert admin.send("PUT", f"/tenants/{nobody}/budget", json={"total_micro": 1}).status_code == 404


def test_a_key_sees_its_own_purse_beside_its_tenants(admin: Actor, engine: Engine, image: str) -> None:
    tenant = another_tenant(admin, "keyed")
    key_id = tenant.get("/whoami").json()["key_id"]
    with writing(engine) as session:
        purses.set_bound(session, tenant.tenant_id, key_id, Unit.GPUS_MILLI, 2000, TOTAL)
    found = tenant.get("/budget").json()["purses"]
    assert [(each["owner_id"], each["unit"], each["bound"]) for each in found] == [(key_id, "gpus_milli", 2000)]
    assert admin.get("/budget", params={"tenant_id": tenant.tenant_id}).json()["purses"] == []
