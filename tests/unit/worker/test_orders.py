"""From the API's order to what a backend is given, the same after a restart."""

import json
from pathlib import Path
from typing import Any

from corral.node import Order

from domain.ids import NodeId
from worker.orders import journaled, launch_order
from worker.settings import WorkerSettings


def an_order(**changes: Any) -> Order:
    facts: dict[str, Any] = {
        "attempt_id": "att_1",
        "fence": 2,
        "job_id": "job_1",
        "tenant_id": "ten_1",
        "level": "process",
        "image_kind": "host",
        "image_reference": "host",
        "command": ["/bin/true", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")],
        "env": {"A": "ä"},
        "cpus_milli": 1000,
        "memory_bytes": 1 << 20,
        "shm_bytes": 0,
        "scratch_bytes": 0,
        "output_bytes": 1 << 20,
        "devices": [{"uuid": "GPU-1", "model": "H100", "is_simulated": False}],
        "inputs": [],
        "time_limit_us": 10,
        "grace_us": 1,
        "max_unreachable_us": 900,
    }
    return Order(**facts | changes)


def test_the_journal_gives_the_same_order_again(tmp_path: Path) -> None:
    facts = journaled(an_order(), NodeId("nod_1"), 50, "boot", 40)
    again = json.loads(json.dumps(facts))
    settings = WorkerSettings()
    assert launch_order(facts, tmp_path, settings) == launch_order(again, tmp_path, settings)


def test_patience_with_silence_counts_from_the_last_answered_heartbeat(tmp_path: Path) -> None:
    def deadline(acked_us: int | None, **changes: Any) -> int | None:
        facts = journaled(an_order(**changes), NodeId("nod_1"), 50, "boot", acked_us)
        return launch_order(facts, tmp_path, WorkerSettings()).unreachable_at_us

    assert deadline(40) == 940
    assert deadline(None) == 950
    assert deadline(40, max_unreachable_us=None) is None


def test_only_a_job_with_inputs_sees_a_folder_of_them(tmp_path: Path) -> None:
    def folder(inputs: list[str]) -> Path | None:
        facts = journaled(an_order(inputs=inputs), NodeId("nod_1"), 50, "boot", 40)
        return launch_order(facts, tmp_path, WorkerSettings()).input_dir

    assert folder([]) is None
    assert folder(["sha256:" + "0" * 64]) == tmp_path / "in"
