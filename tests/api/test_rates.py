"""How often one may ask: by key, by tenant and, without a valid key, by address; over all processes, or by itself."""

import time
from collections.abc import Iterator

import httpx2
import pytest
from actors import Actor, a_job
from fastapi import FastAPI
from fastapi.testclient import TestClient
from redis_parts import RedisServer
from serving import served
from sqlalchemy import Engine

from api.app import create_app
from api.settings import ApiSettings
from store.engine import writing
from store.keys import mint_key

pytestmark = pytest.mark.one_engine


@pytest.fixture
def settings(settings: ApiSettings) -> ApiSettings:
    """Few tokens, which do not come back while a test lasts."""
    return settings.model_copy(
        update={
            "rate_reads": "40/hour",
            "rate_submissions": "3/hour",
            "rate_failures": "5/hour",
            "rate_open": "6/hour",
            "rate_tenant_factor": 2,
        }
    )


@pytest.fixture
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A private Redis."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.close()


def spent(actor: Actor, path: str, most: int = 200) -> int:
    """How many requests were answered before one was refused for its rate."""
    for number in range(most):
        answer = actor.get(path)
        if answer.status_code == 429:
            assert_rate_limited(answer)
            return number
        assert answer.status_code == 200, answer.text
    return most


def assert_rate_limited(answer: httpx2.Response) -> None:
    assert answer.json()["code"] == "rate_limited"
    assert int(answer.headers["retry-after"]) >= 1


def test_a_key_that_asks_too_often_is_refused_and_others_are_not(tenant: Actor, rival: Actor) -> None:
    assert spent(tenant, "/whoami") == 40
    assert tenant.get("/jobs").status_code == 429
    assert rival.get("/whoami").status_code == 200


def test_a_tenants_keys_share_its_limit(tenant: Actor) -> None:
    others = [Actor(tenant.client, tenant.made("/keys", {"name": f"k{n}"})["key"]) for n in range(2)]
    assert [spent(actor, "/whoami") for actor in (tenant, *others)] == [40, 40, 0]


def test_submitting_has_a_limit_of_its_own(tenant: Actor) -> None:
    assert [tenant.post("/jobs", a_job()).status_code for _ in range(4)] == [201, 201, 201, 429]
    assert tenant.get("/quota").json()["queued"] == 3
    assert tenant.get("/whoami").status_code == 200


def test_every_answer_tells_what_is_left(tenant: Actor) -> None:
    answer = tenant.get("/whoami")
    assert answer.headers["ratelimit-policy"] == '"key-reads";q=40;w=3600, "tenant-reads";q=80;w=3600'
    assert answer.headers["ratelimit"].startswith('"key-reads";r=39;t=')


def test_an_address_without_a_valid_key_is_refused_in_the_end(app: FastAPI, tenant: Actor) -> None:
    with served(app) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        bad = [client.get("/v1/whoami", headers={"Authorization": f"Bearer corral_{n}_x"}) for n in range(7)]
        assert [answer.status_code for answer in bad] == [401] * 5 + [429] * 2
        good = client.get("/v1/whoami", headers={"Authorization": f"Bearer {tenant.key}"})
        assert good.status_code == 200  # who shares the address is not shut out


def test_processes_share_a_limit_through_redis(settings: ApiSettings, redis: RedisServer, engine: Engine) -> None:
    settings = settings.model_copy(update={"redis_url": redis.url})
    with writing(engine) as session:
        _, key = mint_key(session, None, "first")
    with TestClient(create_app(settings)) as one, TestClient(create_app(settings)) as two:
        answered = spent(Actor(one, key), "/whoami", 30) + spent(Actor(two, key), "/whoami")
    assert 38 <= answered <= 40  # what a process holds and does not use is lost


def test_without_redis_each_process_counts_for_itself_and_is_not_slow(tenant: Actor) -> None:
    began = time.monotonic()
    assert spent(tenant, "/whoami") == 40
    assert time.monotonic() - began < 10


def test_what_is_refused_is_charged_too(tenant: Actor) -> None:
    narrow = Actor(tenant.client, tenant.made("/keys", {"name": "narrow", "scopes": ["usage:read"]})["key"])
    refused = [narrow.get("/jobs").status_code for _ in range(41)]
    assert refused == [403] * 40 + [429]


def test_requests_with_no_key_at_all_and_of_no_node_are_charged_to_their_address(app: FastAPI, tenant: Actor) -> None:
    with served(app) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1") as client:
        nobody = [client.get("/whoami").status_code for _ in range(3)]
        no_node = [client.post("/node/heartbeat", json={}, headers={"Authorization": "Bearer x"}) for _ in range(3)]
        assert nobody + [answer.status_code for answer in no_node] == [401] * 5 + [429]
        assert_rate_limited(no_node[-1])


def test_a_revoked_key_is_no_longer_its_tenants(app: FastAPI, tenant: Actor) -> None:
    made = tenant.made("/keys", {"name": "leaked"})
    with served(app) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1") as client:
        headers = {"Authorization": f"Bearer {made['key']}"}
        assert client.get("/whoami", headers=headers).status_code == 200
        assert tenant.send("DELETE", f"/keys/{made['id']}").status_code in (200, 204)
        assert [client.get("/whoami", headers=headers).status_code for _ in range(6)] == [401] * 5 + [429]
        assert client.get("/whoami", headers={"Authorization": f"Bearer {tenant.key}"}).status_code == 200


def test_nobody_spends_a_tenants_tokens_with_the_open_part_of_its_key(app: FastAPI, tenant: Actor) -> None:
    with served(app) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}/v1") as client:
        forged = {"Authorization": f"Bearer {tenant.key[:-1]}{'b' if tenant.key[-1] == 'a' else 'a'}"}
        own = {"Authorization": f"Bearer {tenant.key}"}
        assert client.get("/whoami", headers=own).status_code == 200
        assert [client.get("/whoami", headers=forged).status_code for _ in range(6)] == [401] * 5 + [429]
        assert client.get("/whoami", headers=own).headers["ratelimit"].startswith('"key-reads";r=38;')


def test_what_needs_no_key_has_a_limit_but_for_whether_the_process_lives(app: FastAPI, admin: Actor) -> None:
    with served(app) as port, httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        assert [client.get("/openapi.json").status_code for _ in range(9)] == [200] * 6 + [429] * 3
        assert {client.get("/healthz").status_code for _ in range(9)} == {200}
