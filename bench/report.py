"""What a benchmark reports, and how it is printed."""

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

Bound = Mapping[Literal["max", "min"], float]


class Unmeasurable(Exception):
    """A service is missing; the message says how to start it. Never a smaller benchmark instead."""


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of one run, with their units in their names."""

    bench: str
    figures: Mapping[str, float]
    floors: Mapping[str, float]
    targets: Mapping[str, Bound] = field(default_factory=dict)

    @property
    def is_met(self) -> bool:
        """Whether every target is."""
        return all(_is_within(self.figures[name], bound) for name, bound in self.targets.items())

    def print(self, *, as_json: bool) -> None:
        """A table; with `as_json` one object on the last line."""
        if as_json:
            print(
                json.dumps(
                    {
                        "bench": self.bench,
                        "figures": _rounded(self.figures),
                        "floors": _rounded(self.floors),
                        "targets": self.targets,
                        "met": self.is_met,
                        "machine": machine(),
                    }
                )
            )
            return
        table = Table(title=self.bench, box=None, pad_edge=False)
        for heading in ("", "VALUE", "TARGET"):
            table.add_column(heading, justify="left" if not heading else "right")
        for name, value in self.floors.items():
            table.add_row(f"floor: {name}", f"{value:.1f}", "")
        for name, value in self.figures.items():
            table.add_row(name, f"{value:.1f}", _target_text(self.targets.get(name)))
        Console().print(table)


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many percent of the values lie, by linear interpolation."""
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def machine() -> dict[str, str | int]:
    """Where it was measured."""
    return {
        "cpus": os.cpu_count() or 0,
        "memory_gib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "cgroups": "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1",
    }


def _is_within(value: float, bound: Bound) -> bool:
    return bound.get("min", value) <= value <= bound.get("max", value)


def _target_text(bound: Bound | None) -> str:
    return " ".join(f"{word} {value:g}" for word, value in (bound or {}).items())


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in figures.items()}
