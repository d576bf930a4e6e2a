"""What compose.yaml promises: no port but the API's, nothing secret in it, a health check for whatever stays."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from corrald import fleet_secrets

ROOT = Path(__file__).parents[2]
FILE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
STAYING = {name for name, service in SERVICES.items() if service["restart"] != "no"}


def test_the_services_are_there() -> None:
    assert {"api", "control", "worker", "postgres", "redis", "prometheus", "grafana"} == STAYING


def test_no_port_but_the_apis_and_that_on_this_machine_alone_unless_told() -> None:
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"api"}
    assert SERVICES["api"]["ports"] == ["${CORRAL_LISTEN:-127.0.0.1:8080}:8080"]


@pytest.mark.parametrize("name", sorted(STAYING))
def test_whatever_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", sorted(SERVICES.keys() - {"worker"}))
def test_all_but_the_worker_are_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "docker.sock" not in str(service)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_built_here_on_a_pinned_base(name: str) -> None:
    build = SERVICES[name]["build"]
    context = ROOT / (build if isinstance(build, str) else build["context"])
    dockerfile = context / ("Dockerfile" if isinstance(build, str) else build.get("dockerfile", "Dockerfile"))
    bases = re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE)
    assert bases
    assert all(base == "${BASE}" or re.search(r"@sha256:[0-9a-f]{64}$", base) for base in bases)


def test_no_password_stands_in_the_file() -> None:
    for service in SERVICES.values():
        for name, value in (service.get("environment") or {}).items():
            assert "PASSWORD" not in name
            assert "@" not in str(value)


def test_a_node_sees_neither_the_database_nor_the_control_planes_secrets() -> None:
    assert SERVICES["worker"]["networks"] == ["nodes"]
    assert "nodes" not in SERVICES["postgres"]["networks"]
    shared = {str(volume).split(":")[0] for volume in SERVICES["worker"]["volumes"]}
    assert {volume for volume in shared if volume.startswith("secrets-")} == {"secrets-node"}


def test_secrets_are_made_once_each_for_its_owner_and_never_in_clear_for_redis(tmp_path: Path) -> None:
    owner = tmp_path.stat().st_uid
    owners = dict.fromkeys(fleet_secrets.OWNERS, owner)
    assert fleet_secrets.make(tmp_path, owners)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not fleet_secrets.make(tmp_path, owners)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in before)
    password = (tmp_path / "postgres" / "password").read_text()
    users = (tmp_path / "redis" / "users.acl").read_text()
    assert users.startswith("user default off\n")
    assert {path.name for path in (tmp_path / "keys").iterdir()} == {"secrets.keys", "signing.key", "made"}
    for service in ("api", "control"):
        env = dict(line.split("=", 1) for line in (tmp_path / service / "env").read_text().splitlines())
        assert password in env["CORRAL_DATABASE_URL"]
        redis_password = env["CORRAL_REDIS_URL"].split(":")[2].split("@")[0]
        assert redis_password not in users


def test_the_servers_lock_is_part_of_the_projects() -> None:
    def pins(file: str) -> set[str]:
        return set(re.findall(r"^(\S+==\S+)", (ROOT / file).read_text(), re.MULTILINE))

    assert pins("images/server/requirements.lock") < pins("requirements.lock")
