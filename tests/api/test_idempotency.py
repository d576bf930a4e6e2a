"""One Idempotency-Key creates one thing, however often and however much at once it is sent."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from actors import Actor, a_job, a_key
from sqlalchemy import Engine
from sqlmodel import Session, select

from store.tables import Idempotency

TIMES = 50


def at_once(send: Callable[[], httpx2.Response], times: int = TIMES) -> list[httpx2.Response]:
    with ThreadPoolExecutor(times) as pool:
        return [each.result() for each in [pool.submit(send) for _ in range(times)]]


def test_fifty_at_once_create_one_job_and_get_one_answer(tenant: Actor) -> None:
    headers = a_key()
    answers = at_once(lambda: tenant.post("/jobs", a_job(), headers=headers))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert sum("idempotent-replay" not in answer.headers for answer in answers) == 1
    assert len(tenant.get("/jobs").json()["items"]) == 1
    assert tenant.get("/quota").json()["queued"] == 1


def test_fifty_different_ones_at_once_all_come_through(tenant: Actor) -> None:
    answers = at_once(lambda: tenant.post("/jobs", a_job(), headers=a_key()))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == TIMES
    assert tenant.get("/quota").json()["queued"] == TIMES


def test_parallel_submissions_never_pass_the_most_queued(admin: Actor, tenant: Actor) -> None:
    admin.send("PUT", f"/tenants/{tenant.tenant_id}/quota", json={"most_queued": 8})
    answers = at_once(lambda: tenant.post("/jobs", a_job()))
    assert sorted(answer.status_code for answer in answers) == [201] * 8 + [403] * (TIMES - 8)
    assert tenant.get("/quota").json()["queued"] == 8


def test_the_same_again_gets_the_first_answer_even_if_the_job_went_on(tenant: Actor) -> None:
    headers = a_key()
    first = tenant.post("/jobs", a_job(), headers=headers)
    tenant.post(f"/jobs/{first.json()['id']}/cancel")
    again = tenant.post("/jobs", a_job(), headers=headers)
    assert again.content == first.content
    assert again.headers["idempotent-replay"] == "true"


def test_another_body_or_route_under_the_same_key_is_refused(tenant: Actor, admin: Actor) -> None:
    headers = a_key()
    assert tenant.post("/jobs", a_job(), headers=headers).status_code == 201
    for path, body in (("/jobs", a_job(name="other")), ("/keys", {"name": "x"})):
        answer = tenant.post(path, body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_key_reused")
    assert len(tenant.get("/jobs").json()["items"]) == 1


def test_keys_of_two_tenants_never_meet(tenant: Actor, rival: Actor) -> None:
    headers = a_key()
    mine = tenant.post("/jobs", a_job(), headers=headers).json()
    theirs = rival.post("/jobs", a_job(name="other"), headers=headers)
    assert theirs.status_code == 201
    assert theirs.json()["id"] != mine["id"]


def test_a_refused_request_leaves_its_key_free(tenant: Actor) -> None:
    headers = a_key()
    assert tenant.post("/jobs", a_job(image="unknown"), headers=headers).status_code == 422
    assert tenant.post("/jobs", a_job(), headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("path", "body", "secret"),
    [("/keys", {"role": "platform_admin"}, "key"), ("/nodes/join-token", {"node_name": "n1"}, "token")],
)
def test_an_answer_with_a_secret_is_given_once_and_not_kept(
    admin: Actor, engine: Engine, path: str, body: dict[str, Any], secret: str
) -> None:
    headers = a_key()
    made = admin.post(path, body, headers=headers)
    assert made.status_code == 201
    again = admin.post(path, body, headers=headers)
    assert (again.status_code, again.json()["code"]) == (409, "secret_shown_once")
    with Session(engine) as session:
        assert all(made.json()[secret].encode() not in row.answer for row in session.exec(select(Idempotency)))


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "\u00e9"])
def test_a_key_that_is_none_is_refused(tenant: Actor, key: str) -> None:
    answer = tenant.post("/jobs", a_job(), headers={"Idempotency-Key": key.encode("latin-1")})
    assert answer.status_code == 422
