"""Images on a node, from the catalogue to the job: a real API, a real worker, a real engine, a real registry."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engines
import pytest
from node_parts import World, a_world
from redis_parts import eventually
from registries import a_registry, pushed_image

from domain.images import digest_of
from domain.levels import Level
from store.engine import writing
from store.image_work import set_wishes
from store.tables import ImageCheck

HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "volume": ({"Volumes": {"/data": {}}}, "volume"),
    "preload": ({"Env": ["LD_PRELOAD=/evil.so"]}, "LD_PRELOAD"),
    "hook": ({"Env": ["NVIDIA_MIG_MONITOR_DEVICES=all"]}, "NVIDIA_MIG_MONITOR_DEVICES"),
    "onbuild": ({"OnBuild": ["RUN true"]}, "ONBUILD"),
}
HARMLESS: dict[str, Any] = {
    "User": "root",
    "StopSignal": "SIGWINCH",
    "Entrypoint": ["/bin/false"],
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 10**9, "Timeout": 10**9},
    "Env": ["LD_LIBRARY_PATH=/cuda", "CUDA_VERSION=12.8.1", "NVIDIA_VISIBLE_DEVICES=all"],
}
COSIGN = """#!/bin/sh
for last in "$@"; do :; done
case "$last" in
*/unsigned@*) exit 10 ;;
*) echo '[{"critical": {"image": {"docker-manifest-digest": "'"${last##*@}"'"}}}]' ;;
esac
"""
KEY = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"


@pytest.fixture
def world(sqlite_template: Path) -> Iterator[World]:
    """A node, with an API of its own."""
    with tempfile.TemporaryDirectory(prefix="corral-") as folder, a_world(sqlite_template, Path(folder)) as opened:
        yield opened


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    engines.need_engine()
    with a_registry(tmp_path) as address:
        yield address


def admit(world: World, reference: str) -> str:
    """The name under which it was admitted."""
    name = reference.rpartition("@")[0].rpartition("/")[2]
    world.admin.made("/images", {"name": name, "reference": reference})
    return name


def checked(world: World, name: str) -> dict[str, Any]:
    """The entry, once a node has looked at it."""
    eventually(lambda: world.admin.get(f"/images/{name}").json()["state"] != "checking", 30)
    found: dict[str, Any] = world.admin.get(f"/images/{name}").json()
    return found


def forget(*references: str) -> None:
    for reference in references:
        engines.forget_image(reference)


def test_a_node_looks_through_images_that_are_admitted(world: World, registry: str) -> None:
    references = {name: pushed_image(registry, name, **config) for name, (config, _) in HOSTILE.items()}
    plain = pushed_image(registry, "plain", **HARMLESS)
    with world.worker(CORRAL_LEVELS="process,container"):
        for reference in (*references.values(), plain):
            admit(world, reference)
        for name, (_, why) in HOSTILE.items():
            shown = checked(world, name)
            assert shown["state"] == "refused"
            assert why in shown["reason"]
        shown = checked(world, "plain")
    forget(*references.values(), plain)
    assert (shown["state"], shown["min_cuda"]) == ("admitted", "12.8")
    settings = {each["name"]: each["instead"] for each in shown["check"]["findings"]}
    assert settings == {
        "USER": "the job's own user",
        "STOPSIGNAL": "SIGTERM",
        "ENTRYPOINT": "the job's command alone",
        "HEALTHCHECK": "NONE",
        "ENV LD_LIBRARY_PATH": "taken out",
        "ENV NVIDIA_VISIBLE_DEVICES": "taken out",
    }


def test_an_image_is_there_before_its_job_and_the_job_pulls_nothing(world: World, registry: str) -> None:
    reference = pushed_image(registry, "ahead", {"etc/big": os.urandom(1 << 20)})
    with world.worker(CORRAL_LEVELS="process,container"):
        with writing(world.engine) as session:
            set_wishes(session, {(world.node_id, reference)})

        def held() -> list[dict[str, Any]]:
            images: list[dict[str, Any]] = world.admin.get(f"/nodes/{world.node_id}").json()["images"]
            return [each for each in images if each["reference"] == reference and each["pull"] is None]

        eventually(held, 30)
        assert held()[0]["size_bytes"] > 1 << 20
        name = admit(world, reference)
        job_id = world.submit("cat /etc/of", image=name, isolation="container")
        assigned = world.assign(job_id, Level.CONTAINER)
        eventually(lambda: world.is_over(assigned.attempt_id), 60)
    forget(reference)
    assert world.log(job_id).startswith(registry.encode())
    told = [each["text"] for each in world.tenant.get(f"/jobs/{job_id}/events").json()["items"]]
    assert "its image is pulled" not in told


def test_jobs_that_want_an_image_at_once_wait_for_one_pull_and_say_so(
    world: World, registry: str, tmp_path: Path
) -> None:
    reference = pushed_image(registry, "shared", {"etc/big": os.urandom(8 << 20)})
    name = admit(world, reference)
    with writing(world.engine) as session:  # as if a node had looked already, so that only the jobs want it
        session.get_one(ImageCheck, reference).state = "good"
    jobs = [world.submit("true", image=name, isolation="container") for _ in range(2)]
    with world.worker(CORRAL_LEVELS="process,container"):
        attempts = [world.assign(job_id, Level.CONTAINER) for job_id in jobs]
        eventually(lambda: all(world.is_over(each.attempt_id) for each in attempts), 60)
    forget(reference)
    assert [world.attempt(each.attempt_id).outcome for each in attempts] == ["exited", "exited"]
    told = [each["text"] for job_id in jobs for each in world.tenant.get(f"/jobs/{job_id}/events").json()["items"]]
    assert "its image is pulled" in told
    assert (tmp_path / "registry.log").read_text().count(f"GET /v2/corral/shared/manifests/{digest_of(reference)}") == 1


def test_what_a_rule_wants_signed_runs_signed_only(world: World, registry: str, tmp_path: Path) -> None:
    cosign = tmp_path / "cosign"
    cosign.write_text(COSIGN)
    cosign.chmod(0o755)
    signed, unsigned = (pushed_image(registry, name) for name in ("signed", "unsigned"))
    early = world.submit("true", image=admit(world, unsigned), isolation="container")
    with world.worker(CORRAL_LEVELS="process,container", CORRAL_COSIGN=str(cosign)):
        assigned = world.assign(early, Level.CONTAINER)
        eventually(lambda: world.is_over(assigned.attempt_id), 60)  # no rule yet
        world.admin.made("/signature-rules", {"pattern": f"{registry}/*", "key_pem": KEY, "transparency_log": False})
        assert checked(world, "unsigned")["state"] == "refused"
        job_id = world.submit("true", image=admit(world, signed), isolation="container")
        assert checked(world, "signed")["check"]["signed_by"].startswith("the key of rule sig_")
        assigned = world.assign(job_id, Level.CONTAINER)
        eventually(lambda: world.is_over(assigned.attempt_id), 60)
        assert world.attempt(assigned.attempt_id).outcome == "exited"
    forget(signed, unsigned)
