"""The policy on system calls, and the container engine's form of it; `seccomp.toml` is the policy."""

import json
import platform
import tomllib
from dataclasses import dataclass
from errno import ENOSYS, EPERM
from pathlib import Path
from typing import Any

POLICY = Path(__file__).with_name("seccomp.toml")
ENGINE_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
ALLOW, ERRNO = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"


@dataclass(frozen=True, slots=True)
class ArgumentIs:
    """One argument of a call, under the mask, has this value."""

    argument: int
    value: int
    mask: int | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A call that is allowed if all of these hold; each is of another argument."""

    call: str
    arguments: tuple[ArgumentIs, ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """What a job may call. A call that stands nowhere here answers ENOSYS."""

    allowed: tuple[str, ...]
    conditions: tuple[Condition, ...]
    refused: tuple[str, ...]
    """Answered with EPERM."""


def policy() -> Policy:
    """Read `seccomp.toml`."""
    data = tomllib.loads(POLICY.read_text())
    return Policy(_calls(data["allow"]), tuple(map(_condition, data["when"])), _calls(data["refuse"]))


def engine_profile() -> str:
    """The policy as the engine's `--security-opt seccomp=` takes it: JSON, for this machine's architecture."""
    rules = policy()
    syscalls = [
        {"names": list(rules.allowed), "action": ALLOW},
        *({"names": [each.call], "action": ALLOW, "args": _engine_arguments(each)} for each in rules.conditions),
        {"names": list(rules.refused), "action": ERRNO, "errnoRet": EPERM},
        {"names": ["clone3"], "action": ERRNO, "errnoRet": ENOSYS},  # C libraries fall back to clone on no other answer
    ]
    # Docker before 23 takes no default number: there, calls that it knows and we do not name answer EPERM.
    profile = {
        "defaultAction": ERRNO,
        "defaultErrnoRet": ENOSYS,
        "architectures": [ENGINE_ARCHITECTURES[platform.machine()]],
        "syscalls": syscalls,
    }
    return json.dumps(profile)


def _condition(row: dict[str, Any]) -> Condition:
    return Condition(row["call"], tuple(_argument(each) for each in (row, *row.get("also", ()))))


def _argument(row: dict[str, Any]) -> ArgumentIs:
    return ArgumentIs(row["argument"], row["value"], row.get("mask"))


def _engine_arguments(condition: Condition) -> list[dict[str, Any]]:
    return [_engine_argument(asked) for asked in condition.arguments]


def _engine_argument(asked: ArgumentIs) -> dict[str, Any]:
    if asked.mask is None:
        return {"index": asked.argument, "value": asked.value, "op": "SCMP_CMP_EQ"}
    return {"index": asked.argument, "value": asked.mask, "valueTwo": asked.value, "op": "SCMP_CMP_MASKED_EQ"}


def _calls(groups: dict[str, dict[str, str]]) -> tuple[str, ...]:
    return tuple(name for group in groups.values() for name in group["calls"].split())
