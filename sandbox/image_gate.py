"""The image gate: what an image carries beside its files, and whether it may run here. Pure: it reads an inspect.

An image is the tenant's or a stranger's. Its settings reach the engine, its hooks and the sandbox's first process
before any code of the tenant's does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from domain.images import cuda_inside
from sandbox.contract import ImageRefused

MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The engine's names of the architectures, by the kernel's."""
COVERED_VOLUMES: Final = frozenset({"/tmp", "/out"})  # noqa: S108
"""Places that every sandbox has a mount of its own on."""
NEUTRALISED_ENV: Final = frozenset({"LD_LIBRARY_PATH"})
"""Taken out, not refused: NVIDIA's own base images set it, and programs find the same libraries without it."""
EXPECTED_NVIDIA: Final = re.compile(
    r"NVIDIA_(VISIBLE_DEVICES|DRIVER_CAPABILITIES|REQUIRE_[A-Z0-9_]+|PRODUCT_NAME|BUILD_ID|[A-Z0-9]+_VERSION)"
)
"""What NVIDIA's base images set. Those that steer the toolkit are replaced or taken out; none is obeyed."""
STEERING: Final = re.compile(r"LD_.*|NVIDIA_.*|CUDA_MPS_.*|CUDA_VISIBLE_DEVICES|DOCKER_.*")
"""Variables that loaders, the toolkit's hooks, MPS or the engine's clients obey."""
DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
REPOSITORY: Final = re.compile(r"[a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*(:[A-Za-z0-9_.-]+)?")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing of the image's that counts for nothing here, and how it was made so."""

    name: str
    found: str
    instead: str


@dataclass(frozen=True, slots=True)
class AdmittedImage:
    """An image that may run, by the id that its content gives it."""

    image_id: str
    findings: tuple[Finding, ...]
    dropped_env: tuple[str, ...]
    """Names of the image's variables that are taken out."""
    kept_env: tuple[tuple[str, str], ...]
    """Its other variables, which the job finds set unless it sets them itself."""


@dataclass(frozen=True, slots=True)
class Examined:
    """All that the gate sees in an image, whether it may run or not."""

    findings: tuple[Finding, ...]
    refusals: tuple[str, ...]
    """What cannot be made harmless; empty if it may run."""
    cuda: tuple[int, int] | None
    """Which CUDA it says that it holds."""
    size_bytes: int


def admit(reference: str, inspect: Mapping[str, Any], machine: str) -> AdmittedImage:
    """Judge an image by the engine's inspect of it; `machine` is the kernel's name of the architecture.

    Raises:
        ImageRefused: it is not what was pinned, not for this machine, or carries what cannot be made harmless.
    """
    examined = examine(reference, inspect, machine)
    if examined.refusals:
        raise ImageRefused("the image is refused: " + "; ".join(examined.refusals))
    env = _env_of(_config_of(inspect))
    dropped = _dropped(env)
    return AdmittedImage(
        image_id=str(inspect.get("Id", "")),
        findings=examined.findings,
        dropped_env=dropped,
        kept_env=tuple(sorted((name, value) for name, value in env.items() if name not in dropped)),
    )


def examine(reference: str, inspect: Mapping[str, Any], machine: str) -> Examined:
    """What there is to say of an image, by the engine's inspect of it.

    Raises:
        ImageRefused: it is not what was pinned, or not for this machine.
    """
    _check_pin(reference, str(inspect.get("Id", "")), inspect)
    _check_platform(inspect, machine)
    config = _config_of(inspect)
    env = _env_of(config)
    refusals = [*_refused_volumes(config), *_refused_env(env)]
    if on_build := config.get("OnBuild"):
        refusals.append(f"it has ONBUILD instructions ({len(on_build)}): build it once more on top of itself")
    labels = {str(name): str(value) for name, value in (config.get("Labels") or {}).items()}
    taken_out = (Finding(f"ENV {name}", env[name], "taken out") for name in _dropped(env))
    return Examined(
        findings=(*taken_out, *_findings(config)),
        refusals=tuple(refusals),
        cuda=cuda_inside(env, labels),
        size_bytes=int(inspect.get("Size") or 0),
    )


def check_reference(reference: str) -> None:
    """Whether a reference pins an image at all; asked before anyone looks it up.

    Raises:
        ImageRefused: it is a tag, a path, or nothing.
    """
    repository, at, digest = reference.rpartition("@")
    if not DIGEST.fullmatch(digest) or (at and not REPOSITORY.fullmatch(repository)):
        raise ImageRefused("the image is not pinned by a digest or an id")


def _check_pin(reference: str, image_id: str, inspect: Mapping[str, Any]) -> None:
    check_reference(reference)
    repository, at, digest = reference.rpartition("@")
    if not at:
        if digest != image_id:
            raise ImageRefused(f"the engine holds another image under {digest}")
        return
    held = {_without_defaults(str(line)) for line in inspect.get("RepoDigests") or ()}
    if _without_defaults(f"{repository}@{digest}") not in held:
        raise ImageRefused(f"the engine's image is not {reference}")


def _without_defaults(reference: str) -> str:
    """`docker.io/library/x:tag@sha256:…` and `x@sha256:…` name the same content; the engine keeps the short form."""
    repository, _, digest = reference.rpartition("@")
    repository = repository.removeprefix("docker.io/").removeprefix("library/")
    head, slash, last = repository.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}@{digest}"


def _config_of(inspect: Mapping[str, Any]) -> Mapping[str, Any]:
    return inspect.get("Config") or {}


def _dropped(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the variables that are taken out."""
    return tuple(sorted(name for name in env if STEERING.fullmatch(name)))


def _check_platform(inspect: Mapping[str, Any], machine: str) -> None:
    wanted = MACHINES.get(machine, machine)
    system, architecture = inspect.get("Os"), inspect.get("Architecture")
    if system != "linux" or architecture != wanted:
        raise ImageRefused(f"the image is for {system}/{architecture}, this node is linux/{wanted}")


def _env_of(config: Mapping[str, Any]) -> dict[str, str]:
    pairs = (str(line).partition("=") for line in config.get("Env") or ())
    return {name: value for name, _, value in pairs}


def _refused_volumes(config: Mapping[str, Any]) -> list[str]:
    """An uncovered VOLUME is writable disk of the host's, in spite of the read-only root."""
    loose = sorted(set(config.get("Volumes") or ()) - COVERED_VOLUMES)
    return [f"it declares the volume {place!r}: build it without VOLUME" for place in loose]


def _refused_env(env: Mapping[str, str]) -> list[str]:
    refused = []
    for name in sorted(env):
        is_loader = name.startswith("LD_") and name not in NEUTRALISED_ENV
        is_strange = name.startswith("NVIDIA_") and not EXPECTED_NVIDIA.fullmatch(name)
        if is_loader or is_strange:
            refused.append(f"its environment sets {name}: build it without")
    return refused


def _findings(config: Mapping[str, Any]) -> list[Finding]:
    found = []
    user = str(config.get("User") or "")
    if user.partition(":")[0] in ("", "0", "root"):
        found.append(Finding("USER", user or "root", "the job's own user"))
    if (check := config.get("Healthcheck")) and (test := check.get("Test")) and test != ["NONE"]:
        found.append(Finding("HEALTHCHECK", " ".join(map(str, test)), "NONE"))
    if signal := config.get("StopSignal"):
        found.append(Finding("STOPSIGNAL", str(signal), "SIGTERM"))
    if directory := config.get("WorkingDir"):
        found.append(Finding("WORKDIR", str(directory), "the sandbox's own choice"))
    if entrypoint := config.get("Entrypoint"):
        found.append(Finding("ENTRYPOINT", " ".join(map(str, entrypoint)), "the job's command alone"))
    found.extend(Finding("VOLUME", place, "a mount of the sandbox's") for place in sorted(config.get("Volumes") or ()))
    return found
