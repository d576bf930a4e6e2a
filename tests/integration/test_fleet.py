"""Services as on several machines: the API over TLS, Redis over the network with a user for each node."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from corral import Client, JobSpec
from corral.errors import NotConfigured, Unreachable
from redis import Redis
from redis.exceptions import AuthenticationError
from redis_parts import eventually
from system_parts import Network, System, free_port

from domain.ids import AttemptId, Fence
from worker.api_link import ApiLink, Away
from worker.service import CannotServe, api_link
from worker.settings import WorkerSettings

PASSWORD = "of-the-control-plane"


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    made = Authority(tmp_path)
    monkeypatch.setenv("CORRAL_CA_FILE", str(made.file))
    return made


@pytest.fixture
def fleet(tmp_path: Path, authority: Authority) -> Iterator[tuple[System, str]]:
    """A system whose node holds no credential for Redis but its own, and the address of that Redis."""
    port = free_port()
    certificate, key = authority.vouch_for("127.0.0.1")
    network = Network(
        service_env={
            "CORRAL_REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:{port}/0",
            "CORRAL_TLS_CERT_FILE": str(certificate),
            "CORRAL_TLS_KEY_FILE": str(key),
        },
        node_env={
            "CORRAL_REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "CORRAL_API_CA_FILE": str(authority.file),
            "CORRAL_HEARTBEAT_SECONDS": "30",  # so that a job which starts at once was started by a hint
        },
        valkey_arguments=("--port", str(port), "--bind", "127.0.0.1", "--requirepass", PASSWORD),
        trust=ssl.create_default_context(cafile=authority.file),
    )
    made = System(tmp_path, f"sqlite:///{tmp_path / 'corral.db'}", network=network)
    yield made, f"127.0.0.1:{port}"
    made.close()


@pytest.mark.slow
def test_a_job_runs_by_hints_that_its_node_hears_as_a_user_of_its_own_over_encrypted_links(
    fleet: tuple[System, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, redis = fleet
    own = Redis.from_url(f"redis://:{PASSWORD}@{redis}/0")
    node_id = next(iter(system.admin.nodes())).id
    eventually(lambda: any(client["user"] == f"corral.node.{node_id}" for client in own.client_list()), 60)
    job = system.tenant.submit(JobSpec(image="host", command=["true"], time_limit="1m"))
    assert job.wait(timeout=20).exit_code == 0
    assert {entry["reason"] for entry in own.acl_log()} <= {"auth"}  # before the leader had let it in
    with pytest.raises(AuthenticationError):
        Redis.from_url(f"redis://{redis}/0").ping()
    own.close()
    assert_nobody_talks_to_an_api_that_another_authority_vouches_for(system, tmp_path, monkeypatch)


def assert_nobody_talks_to_an_api_that_another_authority_vouches_for(
    system: System, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = Authority(tmp_path, "stranger")
    worker = ApiLink(system.url, "corralnode_x", stranger.file)
    with pytest.raises(Away, match="CERTIFICATE_VERIFY_FAILED"):
        worker.claim(AttemptId("att_x"), Fence(1))
    worker.close()
    monkeypatch.setenv("CORRAL_CA_FILE", str(stranger.file))
    with Client(system.url, "corral_x_y", patience_seconds=0.1) as client, pytest.raises(Unreachable):
        client.whoami()


def test_a_file_that_is_no_authority_is_told_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (None, b"", b"not a certificate"):
        file = tmp_path / "ca.pem"
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(CannotServe, match="CORRAL_API_CA_FILE"):
            api_link(WorkerSettings(api_url="https://localhost", api_ca_file=file), "x")
        monkeypatch.setenv("CORRAL_CA_FILE", str(file))
        with pytest.raises(NotConfigured, match="CORRAL_CA_FILE"):
            Client("https://localhost", "corral_x_y")
