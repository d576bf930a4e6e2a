"""The process itself: that it lives, that it can serve, what it counts, and what it says of faults inside."""

import re
import socket
from pathlib import Path

import httpx2
import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import ApiSettings

pytestmark = pytest.mark.one_engine

NOWHERE = "unix:///nonexistent/corral-test-redis.sock"


def test_it_lives_and_is_ready(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}


def test_without_a_database_it_lives_and_is_not_ready(tmp_path: Path) -> None:
    settings = ApiSettings(
        database_url=f"sqlite:///{tmp_path}/none/corral.db", redis_url=NOWHERE, storage_url=f"file://{tmp_path}/s"
    )
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/readyz").json()["code"] == "unavailable"
        answer = client.get("/v1/jobs", headers={"Authorization": "Bearer corral_x_y"})
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "1"
        assert str(tmp_path) not in answer.text


def test_without_migrations_it_is_not_ready(tmp_path: Path) -> None:
    settings = ApiSettings(
        database_url=f"sqlite:///{tmp_path}/corral.db", redis_url=NOWHERE, storage_url=f"file://{tmp_path}/s"
    )
    with TestClient(create_app(settings)) as client:
        assert client.get("/readyz").status_code == 503


def test_what_goes_wrong_inside_stays_inside(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    @client.app.get("/broken")  # type: ignore[attr-defined,misc]
    def broken() -> None:
        raise RuntimeError("the secret is hunter2")

    answer = client.get("/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text


def test_the_documents_are_open(client: TestClient) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    assert "/v1/jobs/{job_id}" in page.text
    assert "<script" not in page.text
    named = set(re.findall(r'href="#([^"]+)"', page.text))
    assert "JobSpec-Input" in named
    assert named <= set(re.findall(r'<details id="([^"]+)"', page.text))
    assert "least role <code>tenant_admin</code>" in page.text
    assert "http" not in page.text.replace("https://", "", page.text.count("https://example"))
    assert "script-src" not in page.headers["content-security-policy"]
    document = client.get("/openapi.json").json()
    assert "/v1/jobs" in document["paths"]
    assert "Problem" in document["components"]["schemas"]


def test_requests_are_counted_on_a_port_of_their_own(settings: ApiSettings) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with TestClient(create_app(settings.model_copy(update={"metrics_port": port}))) as client:
        client.get("/healthz")
        client.get("/made/up/by/anybody")
        client.get("/v1/jobs/job_x")
        text = httpx2.get(f"http://127.0.0.1:{port}/metrics").text
        assert client.get("/metrics").status_code == 404
    assert 'corral_http_requests_total{method="GET",route="/healthz",status="200"} 1.0' in text
    assert 'route="/jobs/{job_id}",status="401"' in text
    assert "anybody" not in text
