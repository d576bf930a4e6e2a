"""A node's agent with a real API, real sandboxes and simulated devices: hints, silence, stops, fences."""

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import engines
import pytest
from node_parts import World, a_tar, a_world
from redis_parts import RedisServer, eventually

from domain.ids import AttemptId, Fence
from domain.levels import Level
from hints.sender import Hints
from sandbox import boot_clock
from store.assignments import Assigned
from worker import poke
from worker.state_folder import Stage

SELDOM = {"CORRAL_HEARTBEAT_SECONDS": "60"}


@pytest.fixture(scope="module")
def world(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(sqlite_template, tmp_path_factory.mktemp("world")) as opened:
        yield opened


def poked(world: World, assigned: Assigned) -> None:
    """Poke as the node's Celery process does."""
    assert poke.send(world.data_dir / "poke.sock", "launch", assigned.attempt_id, assigned.fence)


def runs(world: World, assigned: Assigned) -> None:
    eventually(lambda: world.attempt(assigned.attempt_id).state == "running", 30)


def ends(world: World, assigned: Assigned, outcome: str) -> None:
    eventually(lambda: world.is_over(assigned.attempt_id), 30)
    attempt = world.attempt(assigned.attempt_id)
    assert attempt.outcome == outcome, attempt.error
    world.check_nothing_is_left()


def test_a_job_goes_its_whole_way_on_a_poke(world: World) -> None:
    script = "wc -c < /in/data; ln -s /etc/shadow /out/link; mkdir /out/d; echo 42 > /out/d/answer; exit 5"
    with world.worker(**SELDOM):
        job_id = world.submit(script, [a_tar(data=b"x" * 1000)])
        assigned = world.assign(job_id)
        poked(world, assigned)
        ends(world, assigned, "exited")
    attempt = world.attempt(assigned.attempt_id)
    assert attempt.exit_code == 5
    assert attempt.prepare_us is not None
    assert attempt.prepare_us > 0
    assert world.log(job_id) == b"1000\n"
    assert world.artifact(job_id, "d/answer") == b"42\n"
    assert [each["name"] for each in attempt.skipped] == ["link"]
    assert world.has_free_device()


def test_two_inputs_lie_apart(world: World) -> None:
    with world.worker():
        job_id = world.submit("cat /in/0/x /in/1/x", [a_tar(x=b"first\n"), a_tar(x=b"second\n")])
        ends(world, world.assign(job_id), "exited")
    assert world.log(job_id) == b"first\nsecond\n"


def test_a_cancelled_job_is_stopped_with_grace_and_keeps_its_output(world: World) -> None:
    script = "trap 'echo bye; echo saved > /out/checkpoint; exit 0' TERM; echo ready; while true; do sleep 0.05; done"
    with world.worker():
        job_id = world.submit(script)
        assigned = world.assign(job_id)
        eventually(lambda: world.log(job_id) == b"ready\n", 30)
        assert world.tenant.post(f"/jobs/{job_id}/cancel").status_code == 200
        ends(world, assigned, "cancelled")
    assert world.log(job_id) == b"ready\nbye\n"
    assert world.artifact(job_id, "checkpoint") == b"saved\n"
    assert world.job(job_id).state == "cancelled"


def test_a_stop_that_comes_before_the_claim_is_saved_is_heard(world: World) -> None:
    job_id = world.submit("echo never")
    assigned = world.assign(job_id)
    with world.worker("before claimed") as dying:
        dying.wait_until_killed()
    world.order_stop(assigned.attempt_id, "cancelled")
    with world.worker():
        ends(world, assigned, "cancelled")
    assert world.log(job_id) == b""


def test_nothing_is_lost_when_the_api_is_away_at_the_end(world: World) -> None:
    with world.worker():
        job_id = world.submit("echo begun; sleep 1; echo done; echo 1 > /out/one")
        assigned = world.assign(job_id)
        runs(world, assigned)
        world.door.shut()
        eventually(lambda: Stage.ENDED in world.stages(assigned.attempt_id), 30)
        assert world.attempt(assigned.attempt_id).state == "running"
        world.door.open()
        ends(world, assigned, "exited")
    assert world.log(job_id) == b"begun\ndone\n"
    assert world.artifact(job_id, "one") == b"1\n"


def test_a_healthy_job_does_not_notice_that_the_api_is_away(world: World) -> None:
    with world.worker(CORRAL_SILENCE_SECONDS="0.5"):
        job_id = world.submit("sleep 2; echo fine", max_unreachable="never")
        assigned = world.assign(job_id)
        runs(world, assigned)
        world.door.shut()
        eventually(lambda: Stage.ENDED in world.stages(assigned.attempt_id), 30)
        world.door.open()
        ends(world, assigned, "exited")
    assert world.log(job_id) == b"fine\n"


def test_a_node_that_hears_nothing_stops_the_job_when_its_patience_is_over(world: World) -> None:
    with world.worker():
        job_id = world.submit("echo begun; sleep 60", max_unreachable="2s", grace="0s")
        assigned = world.assign(job_id)
        runs(world, assigned)
        world.door.shut()
        eventually(lambda: Stage.ENDED in world.stages(assigned.attempt_id), 30)
        world.door.open()
        ends(world, assigned, "node_lost")
    assert world.job(job_id).state == "queued"  # it is tried again


def test_a_node_that_hears_something_extends_the_patience(world: World) -> None:
    with world.worker():
        job_id = world.submit("sleep 4; echo fine", max_unreachable="2s")
        ends(world, world.assign(job_id), "exited")
    assert world.log(job_id) == b"fine\n"


def test_a_silent_node_starts_nothing_new(world: World) -> None:
    with world.worker(CORRAL_SILENCE_SECONDS="0.1", **SELDOM):
        heard_us = boot_clock.now_us()
        assigned = world.assign(world.submit("echo late"))
        eventually(lambda: boot_clock.now_us() > heard_us + 200_000)
        poked(world, assigned)
        eventually(lambda: "not been heard of lately" in world.worker_log())
        assert not world.folder(assigned.attempt_id).exists()
    with world.worker():
        ends(world, assigned, "exited")


def test_what_a_newer_attempt_replaced_is_removed_unheard(world: World) -> None:
    with world.worker():
        job_id = world.submit("trap '' TERM; echo begun; while true; do sleep 0.1; done")
        assigned = world.assign(job_id)
        runs(world, assigned)
        world.lose(assigned.attempt_id)
        ends(world, assigned, "node_lost")
        eventually(world.has_free_device, 30)
    assert world.attempt(assigned.attempt_id).exit_code is None


def test_a_worker_that_stood_still_for_longer_than_its_lease_runs_nothing_twice(world: World) -> None:
    with world.worker() as worker:
        job_id = world.submit("echo begun; sleep 30; echo never", max_unreachable="2s", grace="0s")
        first = world.assign(job_id)
        runs(world, first)
        worker.signal(signal.SIGSTOP)
        runner_journal = world.folder(first.attempt_id) / "journal.jsonl"
        eventually(lambda: b'"exited"' in runner_journal.read_bytes(), 30)  # its watchdog needs nobody
        world.lose(first.attempt_id)
        eventually(lambda: not world.open_allocations(), 10)
        worker.signal(signal.SIGCONT)
        ends(world, first, "node_lost")
        eventually(world.has_free_device, 30)
        second = world.assign(world.submit("echo again"))
        ends(world, second, "exited")


def test_a_device_that_is_gone_after_a_restart_keeps_the_job_from_starting(world: World) -> None:
    job_id = world.submit("echo never", resources={"gpus": 2, "memory": "64MiB"})
    assigned = world.assign(job_id)
    with world.worker(CORRAL_SIMULATED_GPUS="1"):
        ends(world, assigned, "sandbox_error")
    attempt = world.attempt(assigned.attempt_id)
    assert "SIMULATED-n1-1 was assigned and is not on this node" in (attempt.error or "")
    assert attempt.isolation is None
    assert world.log(job_id) == b""
    assert world.job(job_id).state == "queued"
    with world.worker():
        eventually(world.has_free_device, 30)


def test_garbage_on_the_poke_socket_changes_nothing(world: World) -> None:
    with world.worker(**SELDOM):
        path = str(world.data_dir / "poke.sock")
        unknown = json.dumps({"what": "launch", "attempt_id": "att_" + "z" * 26, "fence": 1}).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            for data in (b"", b"\xff" * 600, b'{"what":"stop"}', unknown):
                sender.sendto(data, path)
        assigned = world.assign(world.submit("echo fine"))
        wrong = json.dumps({"what": "launch", "attempt_id": assigned.attempt_id, "fence": assigned.fence - 1}).encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(wrong, path)
        for _ in range(100):
            poked(world, assigned)
        eventually(lambda: poked(world, assigned) or world.is_over(assigned.attempt_id), 30)
        ends(world, assigned, "exited")
    assert world.attempt(assigned.attempt_id).exit_code == 0


def test_a_sandbox_of_nobody_stays_until_the_api_lets_it_go(world: World) -> None:
    assigned = world.assign(world.submit("echo begun; sleep 120"))
    with world.worker() as worker:
        runs(world, assigned)
        worker.kill()
    (world.folder(assigned.attempt_id) / "stages.jsonl").unlink()
    with world.worker():
        before = world.beats()
        eventually(lambda: world.beats() > before + 2, 30)
        assert len(world.sandboxes_left()) == 1
        world.lose(assigned.attempt_id)
        ends(world, assigned, "node_lost")


def test_a_worker_serves_though_redis_is_away(world: World) -> None:
    with world.worker(CORRAL_REDIS_URL="unix:///nonexistent/corral-test-redis.sock"):
        ends(world, world.assign(world.submit("echo fine")), "exited")


@pytest.mark.slow
def test_a_job_runs_in_a_container(world: World) -> None:
    engines.need_engine()
    image_id = engines.an_image({})
    world.admin.made("/images", {"name": "busybox", "reference": image_id})
    with world.worker(CORRAL_LEVELS="process,container"):
        script = "cat /in/x; echo 1 > /out/one"
        job_id = world.submit(script, [a_tar(x=b"hello\n")], image="busybox", isolation="container")
        assigned = world.assign(job_id, Level.CONTAINER)
        ends(world, assigned, "exited")
    isolation = world.attempt(assigned.attempt_id).isolation
    assert isolation is not None
    assert (isolation["level"], isolation["runtime"]) == ("container", "runc")
    assert world.log(job_id) == b"hello\n"
    assert world.artifact(job_id, "one") == b"1\n"
    assert engines.container_ids(world.node_id) == frozenset()
    engines.forget_image(image_id)


@pytest.mark.slow
def test_a_hint_over_redis_starts_a_job_and_the_process_that_takes_it_comes_back(
    world: World, redis_server: RedisServer
) -> None:
    hints = Hints(redis_server.url)
    killed: set[int] = set()
    with world.worker(CORRAL_REDIS_URL=redis_server.url, **SELDOM) as worker:

        def hint_process() -> int:
            eventually(lambda: set(worker.hint_processes()) - killed, 30)
            [pid] = set(worker.hint_processes()) - killed
            return pid

        for _ in range(2):
            assigned = world.assign(world.submit("echo hinted"))
            hints.launch(world.node_id, AttemptId(assigned.attempt_id), Fence(assigned.fence))
            ends(world, assigned, "exited")
            killed.add(hint_process())
            for pid in killed & set(worker.hint_processes()):
                os.kill(pid, signal.SIGKILL)
        last = hint_process()
        worker.kill()
        eventually(lambda: not Path(f"/proc/{last}").exists(), 10)
    hints.close()
