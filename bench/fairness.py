"""How long a tenant's requests take while another sends as many as it can through the same API process."""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.paced import Stream, seen, start
from bench.report import Bound, Report, percentile
from bench.submit import JOB, Served, add_arguments, postgres, serving

ROUNDS = 5
SECONDS = 5.0
"""Of each stretch, alone and flooded in turn, so that both see the same machine."""
LEAD_SECONDS = 1.0
"""By which the flood begins earlier and ends later."""
PAUSE_SECONDS = 0.05
CONNECTIONS = 64
RATIO_MAX = 2.0
KINDS = ("reads", "submissions")

__all__ = ("add_arguments", "measure")


def measure(arguments: argparse.Namespace) -> Report:
    """Both engines; one tenant at full speed, reading and submitting, and another twenty times a second of each.

    Raises:
        Unmeasurable: there is no PostgreSQL.
    """
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder, postgres(arguments.postgres) as postgres_url:
        for engine, url in (("sqlite", f"sqlite:///{folder}/corral.db"), ("postgres", postgres_url)):
            with serving(Path(folder), url) as served:
                figures |= {f"{engine}_{name}": value for name, value in _measured(served).items()}
    targets: dict[str, Bound] = {name: {"max": RATIO_MAX} for name in figures if name.endswith("_ratio")}
    return Report("fairness", figures, {}, targets)


def _measured(served: Served) -> dict[str, float]:
    loud, quiet = served.keys[:1], served.keys[1:2]
    p99s: dict[str, list[float]] = {}
    answered: list[float] = []
    seen(start(served.port, LEAD_SECONDS, _streams(quiet, 1, PAUSE_SECONDS)))
    for _ in range(ROUNDS):
        _note(p99s, "alone", seen(start(served.port, SECONDS, _streams(quiet, 1, PAUSE_SECONDS))))
        flood = start(served.port, SECONDS + 2 * LEAD_SECONDS, _streams(loud, CONNECTIONS // 2, 0))
        time.sleep(LEAD_SECONDS)
        _note(p99s, "flooded", seen(start(served.port, SECONDS, _streams(quiet, 1, PAUSE_SECONDS))))
        counted = seen(flood)
        answered.append(sum(len(taken) for stream in counted for taken in stream.values()) / (SECONDS + 2))
    found = {f"{name}_p99_ms_{when}": median(p99s[f"{name} {when}"]) for name in KINDS for when in ("alone", "flooded")}
    found |= {f"{n}_p99_ratio": found[f"{n}_p99_ms_flooded"] / found[f"{n}_p99_ms_alone"] for n in KINDS}
    return found | {"flood_answers_per_s": median(answered)}


def _streams(keys: Sequence[str], connections: int, pause_seconds: float) -> list[Stream]:
    return [
        Stream("/v1/jobs?limit=20", "", keys, connections, pause_seconds),
        Stream("/v1/jobs", json.dumps(JOB), keys, connections, pause_seconds),
    ]


def _note(p99s: dict[str, list[float]], when: str, streams: Sequence[Mapping[int, list[float]]]) -> None:
    for name, status, by_status in zip(KINDS, (200, 201), streams, strict=True):
        p99s.setdefault(f"{name} {when}", []).append(percentile(by_status[status], 99))
