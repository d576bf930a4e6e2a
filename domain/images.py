"""What an image is, by its reference; and which NVIDIA driver its CUDA needs. Pure data and rules."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Final

Version = tuple[int, ...]

DIGEST_CHARACTERS: Final = len("sha256:") + 64
FIRST_DRIVER: Final[Mapping[tuple[int, int], Version]] = MappingProxyType({
    (11, 8): (520, 61, 5),
    (12, 0): (525, 60, 13),
    (12, 1): (530, 30, 2),
    (12, 2): (535, 54, 3),
    (12, 3): (545, 23, 6),
    (12, 4): (550, 54, 14),
    (12, 5): (555, 42, 2),
    (12, 6): (560, 28, 3),
    (12, 8): (570, 26),
    (12, 9): (575, 51, 3),
    (13, 0): (580, 65, 6),
    (13, 1): (590, 44, 1),
    (13, 2): (595, 45, 4),
})  # fmt: skip
"""The driver with which each CUDA came, on Linux: all of it works from there on.
Source: NVIDIA, CUDA Toolkit Release Notes, "CUDA Toolkit and Corresponding Driver Versions"."""
FAMILY_DRIVER: Final[Mapping[int, Version]] = MappingProxyType({11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)})
"""The least driver of each major version, with which its later minor ones run too, but for what is new in them (code
that is compiled when it is loaded, for one). Source: NVIDIA, CUDA Compatibility, "Minor Version Compatibility"."""
_CUDA: Final = re.compile(r"([1-9][0-9]?)\.([0-9]{1,2})(?:\.[0-9.]+)?")
_REQUIRED: Final = re.compile(r"\bcuda>=([1-9][0-9]?\.[0-9]{1,2})\b")


class ImageState(StrEnum):
    """How an entry of the catalogue stands, for who reads it."""

    CHECKING = "checking"
    """No node has looked at it yet. Jobs may name it; they wait where a signature is asked for."""
    ADMITTED = "admitted"
    REFUSED = "refused"
    """A node's image gate, or the check of its signature, turned it away: nothing new of it starts."""
    RETIRED = "retired"
    """No new job may name it; those that wait or run keep it."""
    BLOCKED = "blocked"
    """Its digest starts nowhere any more, under whatever name."""


class CheckState(StrEnum):
    """What is known of a reference."""

    WAITING = "waiting"
    GOOD = "good"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SignatureRule:
    """Images whose repository matches `pattern` run only if one with this key, or of this identity, signed them."""

    rule_id: str
    pattern: str
    key_pem: str | None
    identity: str | None
    issuer: str | None
    is_logged: bool
    """The signature must be in a public transparency log too."""


def repository_of(reference: str) -> str:
    """`registry/name` of `registry/name@sha256:…`; empty for an image that was built on a node."""
    return reference.rpartition("@")[0]


def digest_of(reference: str) -> str:
    """The digest or the id that a reference pins; the reference itself if it pins none (`host`)."""
    return reference[-DIGEST_CHARACTERS:]


def rule_for(reference: str, rules: Sequence[SignatureRule]) -> SignatureRule | None:
    """The rule of the longest pattern that matches; None if no signature is asked for. `*` matches every image."""
    repository = repository_of(reference)
    matching = [rule for rule in rules if fnmatchcase(repository, rule.pattern)]
    return max(matching, key=lambda rule: (len(rule.pattern), rule.pattern), default=None)


def cuda_version(text: str) -> tuple[int, int] | None:
    """`12.8` or `12.8.1` as numbers; None for anything else."""
    found = _CUDA.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def cuda_inside(env: Mapping[str, str], labels: Mapping[str, str]) -> tuple[int, int] | None:
    """Which CUDA an image says that it holds: by our label, by NVIDIA's variables, or by NVIDIA's label."""
    required = _REQUIRED.search(env.get("NVIDIA_REQUIRE_CUDA", ""))
    said = (
        labels.get("corral.cuda", ""),
        env.get("CUDA_VERSION", ""),
        labels.get("com.nvidia.cuda.version", ""),
        required[1] if required else "",
    )
    return next((version for text in said if (version := cuda_version(text)) is not None), None)


def least_driver(cuda: tuple[int, int]) -> Version | None:
    """The driver from which all of this CUDA works; that of the next older version known if it is not listed."""
    older = [known for known in FIRST_DRIVER if known[0] == cuda[0] and known <= cuda]
    return FIRST_DRIVER[max(older)] if older else FAMILY_DRIVER.get(cuda[0])


def driver_version(text: str | None) -> Version | None:
    """`570.124.06` as numbers; None if there is no driver, or none that can be told."""
    parts = (text or "").split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) <= 9 for part in parts) else None


def version_text(version: Version) -> str:
    """A driver's version as NVIDIA writes it: (570, 26) is `570.26`, (525, 60, 5) is `525.60.05`."""
    return ".".join(str(part) if n < 2 else f"{part:02d}" for n, part in enumerate(version))


def why_not_driven(cuda: tuple[int, int], driver: str | None, runs_cuda: str | None) -> str | None:
    """Why a node's driver does not run this CUDA; None if it does. `runs_cuda` is what the driver itself says."""
    if driver is None or runs_cuda is None:
        return "no NVIDIA driver"
    if (newest := cuda_version(runs_cuda)) is not None and newest >= cuda:
        return None
    least = least_driver(cuda)
    needs = f"; {version_text(least)} or newer is needed" if least else ""
    family = FAMILY_DRIVER.get(cuda[0])
    found = driver_version(driver)
    partly = ""
    if family is not None and found is not None and found >= family and newest is not None and newest[0] == cuda[0]:
        partly = "; programs that NVIDIA's minor version compatibility covers would run: admit it with a lower version"
    return f"driver {driver} runs CUDA {runs_cuda}{needs}{partly}"
