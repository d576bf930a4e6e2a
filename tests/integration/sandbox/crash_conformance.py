"""What every sandbox backend finds again when its own processes were killed, and what it leaves: nothing."""

import resource
from pathlib import Path

import pytest

from sandbox import boot_clock
from sandbox.contract import (
    Sandbox,
    SandboxFault,
    StopReason,
)
from sandbox.runner_link import RunnerLink, spawn
from tests.integration.sandbox.lives import Backend, OrderMaker, ended, kill_runner, log_of, made, running, says, until


class CrashConformance(Backend):
    """Found again and taken away whole; `sandbox` and `order` are the subclass's fixtures."""

    def test_it_is_listed_until_it_is_removed(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sleep", "60")
        with running(sandbox, asked) as name:
            (held,) = sandbox.list()
            assert (held.sandbox_id, held.attempt_id, held.fence) == (name, asked.attempt_id, asked.fence)
            assert (held.tenant_id, held.state_dir, held.is_alive) == (asked.tenant_id, asked.state_dir, True)
            sandbox.stop(name, asked, StopReason.CANCELLED, 0)
            ended(sandbox, name, asked)
            assert [one.is_alive for one in sandbox.list()] == [False]
            sandbox.remove(name, None)
            assert sandbox.list() == ()
            sandbox.remove(name, asked)
            end = ended(sandbox, name, asked)  # the state folder stays, and tells
            assert end.stop_reason is StopReason.CANCELLED

    def test_removing_a_running_one_ends_it(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sleep", "1236")
        with running(sandbox, asked) as name:
            pids = sandbox.pids(name)
            assert pids
            sandbox.remove(name, asked)
            until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
            assert sandbox.list() == ()

    def test_a_second_runner_leaves_at_once(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran; sleep 1")
        with running(sandbox, asked) as name:
            first = RunnerLink(asked.state_dir).state().runner_pid
            for _ in range(3):
                spawn(asked.state_dir)
            assert ended(sandbox, name, asked).exit_code == 0
            assert RunnerLink(asked.state_dir).state().runner_pid == first
            assert log_of(asked) == b"ran\n"

    def test_a_runner_killed_while_the_gate_waits(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran; exit 3")
        with made(sandbox, asked) as name:
            kill_runner(asked)
            if self.dies_with_runner:
                with pytest.raises(SandboxFault):
                    sandbox.start(name, asked)
                end = ended(sandbox, name, asked)
                assert (end.exit_code, end.is_gate_opened) == (None, False)
                assert end.error
            else:
                sandbox.verify(name, asked)
                sandbox.start(name, asked)
                assert ended(sandbox, name, asked).exit_code == 3

    def test_a_runner_killed_while_it_runs(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ready; sleep 2; echo done; exit 3")
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            kill_runner(asked)
            end = ended(sandbox, name, asked)
            if self.dies_with_runner:
                assert (end.exit_code, end.is_gate_opened) == (None, True)
                assert end.error
                until(lambda: sandbox.pids(name) == frozenset())
                assert log_of(asked) == b"ready\n"
            else:
                assert (end.exit_code, end.is_gate_opened, end.error) == (3, True, "")
                assert end.run_us > 1_900_000
                assert log_of(asked) == b"ready\ndone\n"

    def test_a_runner_killed_during_the_grace(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            sandbox.stop(name, asked, StopReason.CANCELLED, 1_500_000)
            kill_runner(asked)
            end = ended(sandbox, name, asked)
            assert end.stop_reason is StopReason.CANCELLED
            assert end.exit_code == (None if self.dies_with_runner else 137)

    def test_a_runner_killed_after_the_end(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "exit 3")
        with running(sandbox, asked) as name:
            first = ended(sandbox, name, asked)
            kill_runner(asked)
            assert ended(sandbox, name, asked) == first
            assert [one.is_alive for one in sandbox.list()] == [False]

    def test_a_full_disk_ends_nothing_and_hides_no_end(
        self, sandbox: Sandbox, order: OrderMaker, tmp_path: Path
    ) -> None:
        """The runner can write neither journal nor log, nor even its complaint of it."""
        now_us = boot_clock.now_us()
        told = tmp_path / "told"
        told.mkdir()
        script = "echo begun; while [ ! -e /in/go ]; do sleep 0.05; done; echo over; exit 6"
        asked = order("sh", "-c", script, input_dir=told, unreachable_at_us=now_us + 3_000_000)
        with running(sandbox, asked) as name:
            until(says(asked, b"begun"))
            runner = RunnerLink(asked.state_dir).state().runner_pid
            _, most = resource.prlimit(runner, resource.RLIMIT_FSIZE)
            resource.prlimit(runner, resource.RLIMIT_FSIZE, (0, most))
            sandbox.extend(name, asked, now_us + 60_000_000)
            until(lambda: boot_clock.now_us() > now_us + 3_300_000)
            assert sandbox.wait(name, asked, 0.1) is None
            (told / "go").touch()
            assert sandbox.wait(name, asked, 1.0) is None
            assert RunnerLink(asked.state_dir).state().runner_pid == runner
            resource.prlimit(runner, resource.RLIMIT_FSIZE, (most, most))
            assert ended(sandbox, name, asked).exit_code == 6

    def test_the_time_limit_holds_over_a_runners_death(self, sandbox: Sandbox, order: OrderMaker) -> None:
        if self.dies_with_runner:
            pytest.skip("its sandbox is gone with it")
        asked = order("sh", "-c", "echo ready; sleep 60", time_limit_us=2_000_000)
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            kill_runner(asked)
            end = ended(sandbox, name, asked)
            assert (end.exit_code, end.stop_reason) == (143, StopReason.TIME_LIMIT)
