"""The agent is killed at every step of an attempt, and the next one takes it up: nothing is lost or run twice."""

import pytest
from node_parts import World, a_tar
from redis_parts import eventually

from worker.state_folder import Stage

KILL_POINTS = [f"{when} {stage.value}" for stage in Stage for when in ("before", "after")] + ["acknowledged"]
SCRIPT = "cat /in/word; echo ran; sleep 0.5; echo result > /out/result; exit 3"


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", KILL_POINTS)
def test_a_kill_at_any_step_changes_nothing_for_the_job(world: World, kill_at: str) -> None:
    job_id = world.submit(SCRIPT, [a_tar(word=b"hello\n")])
    attempt_id = world.assign(job_id).attempt_id
    with world.worker(kill_at) as dying:
        dying.wait_until_killed()
    with world.worker():
        eventually(lambda: world.is_over(attempt_id), 30)
    attempt = world.attempt(attempt_id)
    assert (attempt.outcome, attempt.exit_code) == ("exited", 3), attempt.error
    assert world.log(job_id) == b"hello\nran\n"
    assert world.artifact(job_id, "result") == b"result\n"
    assert attempt.run_us is not None
    assert 400_000 < attempt.run_us < 5_000_000
    assert attempt.isolation is not None
    world.check_nothing_is_left()


@pytest.mark.slow
def test_a_job_that_ends_while_no_agent_is_there_is_reported_as_it_was(world: World) -> None:
    attempt_id = world.assign(world.submit("sleep 1; echo late; exit 7")).attempt_id
    with world.worker() as dying:
        eventually(lambda: Stage.OPENED in world.stages(attempt_id), 30)
        dying.kill()
    eventually(lambda: b'"exited"' in (world.folder(attempt_id) / "journal.jsonl").read_bytes(), 30)
    with world.worker():
        eventually(lambda: world.is_over(attempt_id), 30)
    attempt = world.attempt(attempt_id)
    assert (attempt.outcome, attempt.exit_code) == ("exited", 7)
    assert attempt.run_us is not None
    assert 900_000 < attempt.run_us < 5_000_000


@pytest.mark.slow
def test_a_job_runs_on_when_its_agent_leaves_and_the_next_one_adopts_it(world: World) -> None:
    job_id = world.submit("echo one; sleep 2.5; echo two")
    attempt_id = world.assign(job_id).attempt_id
    with world.worker():
        eventually(lambda: world.attempt(attempt_id).state == "running", 30)
    assert world.attempt(attempt_id).state == "running"
    with world.worker():
        eventually(lambda: world.is_over(attempt_id), 30)
    assert world.log(job_id) == b"one\ntwo\n"
    assert world.attempt(attempt_id).outcome == "exited"
