"""The SDK and the API understand each other, also where answers are lost on the way."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from actors import Actor
from corral import ApiError, Client
from corral.accounts import TenantSpec
from corral.cluster import JoinTokenSpec
from corral.following import JobEnd, StateChange
from corral.identity import KeySpec
from corral.images import ImageSpec
from corral.prices import PriceSpec
from corral.quotas import GpuQuota, QuotaSpec
from fastapi.testclient import TestClient

pytestmark = pytest.mark.one_engine


class Lossy(httpx2.BaseTransport):
    """Carries every request to the application, and loses the first `losses` answers of each."""

    def __init__(self, served: TestClient, losses: int) -> None:
        self._served = served
        self._losses = losses
        self._seen: dict[str, int] = {}

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        answer = self._served.request(
            request.method, request.url.copy_with(scheme="http", host="testserver", port=None),
            headers=request.headers, content=request.content,
        )  # fmt: skip
        name = f"{request.method} {request.url} {request.headers.get('Idempotency-Key')}"
        self._seen[name] = self._seen.get(name, 0) + 1
        if self._seen[name] <= self._losses:
            raise httpx2.ReadError("the answer was lost", request=request)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)


def an_sdk(actor: Actor, losses: int = 0) -> Client:
    return Client("http://corral.test", actor.key, transport=Lossy(actor.client, losses), sleep=lambda _seconds: None)


@pytest.fixture
def sdk(tenant: Actor) -> Iterator[Client]:
    with an_sdk(tenant) as opened:
        yield opened


@pytest.fixture
def admin_sdk(admin: Actor) -> Iterator[Client]:
    with an_sdk(admin) as opened:
        yield opened


def test_lost_answers_double_nothing(tenant: Actor, image: str, tmp_path: Path) -> None:
    source = tmp_path / "input"
    source.mkdir()
    (source / "data.txt").write_text("12\n")
    with an_sdk(tenant, losses=3) as client:
        stored = client.upload_input(source)
        jobs = [client.submit(image=image, command=["true"], inputs=[stored.sha256]) for _ in range(3)]
        assert {job.id for job in jobs} == {view.id for view in client.jobs()}
        assert client.quota().queued == 3
        assert client.upload_input(source) == stored


def test_a_job_from_submission_to_its_end(sdk: Client, image: str) -> None:
    job = sdk.submit(image=image, command=["echo", "\x1b[2J"], name="one", time_limit="5m", labels={"a": "b"})
    assert job.view.reason is not None
    assert job.hold().state == "held"
    assert job.release().state == "queued"
    assert job.cancel().state == "cancelled"
    assert job.wait().outcome == job.view.outcome
    assert list(sdk.follow(job.id)) == [StateChange("cancelled"), JobEnd("cancelled", None)]
    assert list(job.logs()) == []
    assert job.artifacts == []
    assert job.attempts() == []
    assert job.ledger() == []
    assert job.events()[0].what == "submitted"
    assert [view.id for view in sdk.jobs(name="one", state="cancelled")] == [job.id]


def test_more_jobs_than_a_page_holds(sdk: Client, image: str) -> None:
    ids = [sdk.submit(image=image, command=["true"]).id for _ in range(5)]
    assert [view.id for view in sdk.jobs(limit=2)] == ids[::-1]


def test_a_refusal_arrives_whole(sdk: Client, image: str) -> None:
    with pytest.raises(ApiError) as refusal:
        sdk.job("job_" + "0" * 26)
    assert (refusal.value.code, refusal.value.status) == ("not_found", 404)
    assert refusal.value.help
    with pytest.raises(ApiError) as refusal:
        sdk.nodes().__next__()
    assert refusal.value.status == 403


def test_what_a_tenant_can_ask(sdk: Client, image: str) -> None:
    who = sdk.whoami()
    assert who.role == "tenant_admin"
    assert [view.name for view in sdk.images() if view.name == image] == [image]
    assert list(sdk.gpus()) == []
    assert sdk.usage(["model", "day"]).rows == []
    made = sdk.create_key(KeySpec(name="second"))
    sdk.revoke_key(made.id)
    listed = list(sdk.keys())
    assert {key.id: key.revoked_at is None for key in listed} == {made.id: False, who.key_id: True}


def test_what_an_admin_can_do(admin_sdk: Client) -> None:
    tenant = admin_sdk.create_tenant(TenantSpec(name="lab", default_time_limit="10m"))
    assert admin_sdk.suspend_tenant(tenant.id).state == "suspended"
    assert admin_sdk.resume_tenant(tenant.id).state == "active"
    quota = admin_sdk.set_tenant_quota(tenant.id, QuotaSpec(gpus=[GpuQuota(model="*", limit=2)]))
    assert quota == admin_sdk.tenant_quota(tenant.id) == admin_sdk.quota(tenant_id=tenant.id)
    key = admin_sdk.create_tenant_key(tenant.id, KeySpec(name="lab"))
    assert [view.id for view in admin_sdk.tenant_keys(tenant.id)] == [key.id]
    admin_sdk.revoke_tenant_key(tenant.id, key.id)
    price = admin_sdk.set_price(PriceSpec(model="H100", micro_per_gpu_hour=2_500_000))
    assert price in list(admin_sdk.prices())
    assert [piece.is_sound for piece in admin_sdk.verify_ledger(tenant.id)] == [True]
    assert admin_sdk.create_join_token(JoinTokenSpec(node_name="node-1")).node_name == "node-1"
    assert list(admin_sdk.nodes()) == []
    image = admin_sdk.add_image(ImageSpec(name="tools", reference="sha256:" + "b" * 64))
    assert admin_sdk.retire_image(image.name).state == "retired"
