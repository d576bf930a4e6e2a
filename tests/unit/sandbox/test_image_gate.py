"""What an image may carry, what is made harmless, and what is refused."""

from typing import Any

import pytest

from sandbox.contract import ImageRefused
from sandbox.image_gate import admit

ID = "sha256:" + "a" * 64
DIGEST = "sha256:" + "b" * 64


def an_inspect(**config: Any) -> dict[str, Any]:
    return {
        "Id": ID,
        "RepoDigests": [f"registry.example/team/cuda@{DIGEST}"],
        "Os": "linux",
        "Architecture": "amd64",
        "Config": {"User": "1000", **config},
    }


def findings(**config: Any) -> dict[str, str]:
    return {finding.name: finding.instead for finding in admit(ID, an_inspect(**config), "x86_64").findings}


def test_a_plain_image_is_admitted_by_its_id() -> None:
    admitted = admit(ID, an_inspect(), "x86_64")
    assert admitted.image_id == ID
    assert admitted.findings == ()
    assert admitted.dropped_env == ()


def test_an_image_with_no_settings_at_all_is_admitted() -> None:
    assert admit(ID, an_inspect() | {"Config": None}, "x86_64").image_id == ID


def test_a_registry_digest_is_compared_and_the_id_is_what_runs() -> None:
    assert admit(f"registry.example/team/cuda@{DIGEST}", an_inspect(), "x86_64").image_id == ID


@pytest.mark.parametrize("reference", ["docker.io/library/debian", "library/debian", "debian", "debian:12"])
def test_the_engine_s_short_names_are_known(reference: str) -> None:
    inspect = an_inspect() | {"RepoDigests": [f"debian@{DIGEST}"]}
    assert admit(f"{reference}@{DIGEST}", inspect, "x86_64").image_id == ID


@pytest.mark.parametrize(
    "reference",
    [
        "debian",
        "debian:latest",
        "",
        "sha256:abc",
        "debian@sha256:" + "B" * 64,
        f"registry.example/other/cuda@{DIGEST}",
        f"elsewhere.example/team/cuda@{DIGEST}",
        "registry.example/team/cuda@sha256:" + "c" * 64,
        "sha256:" + "c" * 64,
        "file:///etc/passwd",
    ],
)
def test_what_is_not_pinned_or_not_what_was_pinned_is_refused(reference: str) -> None:
    with pytest.raises(ImageRefused):
        admit(reference, an_inspect(), "x86_64")


@pytest.mark.parametrize(
    ("changed", "machine"),
    [({"Architecture": "arm64"}, "x86_64"), ({"Os": "windows"}, "x86_64"), ({}, "aarch64"), ({}, "riscv64")],
)
def test_another_platform_is_refused(changed: dict[str, str], machine: str) -> None:
    with pytest.raises(ImageRefused, match="the image is for"):
        admit(ID, an_inspect() | changed, machine)


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"Volumes": {"/data": {}}}, "'/data'"),
        ({"Volumes": {"/out/": {}}}, "'/out/'"),
        ({"Volumes": {"/scratch": {}}}, "'/scratch'"),
        ({"Env": ["LD_PRELOAD=/evil.so"]}, "LD_PRELOAD"),
        ({"Env": ["LD_AUDIT=/evil.so"]}, "LD_AUDIT"),
        ({"Env": ["NVIDIA_MIG_CONFIG_DEVICES=all"]}, "NVIDIA_MIG_CONFIG_DEVICES"),
        ({"Env": ["NVIDIA_DISABLE_REQUIRE=1"]}, "NVIDIA_DISABLE_REQUIRE"),
        ({"Env": ["NVIDIA_VISIBLE_DEVICES_EXTRA=1"]}, "NVIDIA_VISIBLE_DEVICES_EXTRA"),
        ({"OnBuild": ["RUN true"]}, "ONBUILD"),
    ],
)
def test_what_cannot_be_made_harmless_is_refused_by_name(config: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ImageRefused, match=complaint):
        admit(ID, an_inspect(**config), "x86_64")


def test_all_complaints_come_at_once() -> None:
    with pytest.raises(ImageRefused, match=r"LD_PRELOAD.*ONBUILD"):
        admit(ID, an_inspect(Env=["LD_PRELOAD=x"], OnBuild=["RUN true"]), "x86_64")


@pytest.mark.parametrize(
    ("config", "name", "instead"),
    [
        ({"User": "root"}, "USER", "the job's own user"),
        ({"User": ""}, "USER", "the job's own user"),
        ({"User": "0:0"}, "USER", "the job's own user"),
        ({"Healthcheck": {"Test": ["CMD", "true"]}}, "HEALTHCHECK", "NONE"),
        ({"StopSignal": "SIGWINCH"}, "STOPSIGNAL", "SIGTERM"),
        ({"Entrypoint": ["/run.sh"]}, "ENTRYPOINT", "the job's command alone"),
        ({"WorkingDir": "/proc/self/fd/8"}, "WORKDIR", "the sandbox's own choice"),
        ({"Volumes": {"/out": {}}}, "VOLUME", "a mount of the sandbox's"),
        ({"Env": ["LD_LIBRARY_PATH=/usr/local/nvidia/lib"]}, "ENV LD_LIBRARY_PATH", "taken out"),
        ({"Env": ["NVIDIA_VISIBLE_DEVICES=all"]}, "ENV NVIDIA_VISIBLE_DEVICES", "taken out"),
        ({"Env": ["CUDA_VISIBLE_DEVICES=0"]}, "ENV CUDA_VISIBLE_DEVICES", "taken out"),
        ({"Env": ["DOCKER_HOST=tcp://x"]}, "ENV DOCKER_HOST", "taken out"),
    ],
)
def test_what_counts_for_nothing_here_is_listed(config: dict[str, Any], name: str, instead: str) -> None:
    assert findings(**config)[name] == instead


def test_a_cuda_image_as_nvidia_builds_it_is_admitted() -> None:
    env = [
        "PATH=/usr/local/cuda/bin:/usr/bin",
        "NVARCH=x86_64",
        "NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=unknown,driver>=470",
        "NV_CUDA_CUDART_VERSION=12.8.57-1",
        "CUDA_VERSION=12.8.0",
        "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
        "NVIDIA_VISIBLE_DEVICES=all",
        "NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        "NVIDIA_PRODUCT_NAME=CUDA",
    ]
    admitted = admit(ID, an_inspect(Env=env), "x86_64")
    assert set(admitted.dropped_env) == {
        "LD_LIBRARY_PATH",
        "NVIDIA_DRIVER_CAPABILITIES",
        "NVIDIA_PRODUCT_NAME",
        "NVIDIA_REQUIRE_CUDA",
        "NVIDIA_VISIBLE_DEVICES",
    }
