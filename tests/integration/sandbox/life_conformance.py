"""What every sandbox backend does with a job from its start to its end: the gate, the ends, the bounds, the log."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from domain.ids import Fence
from sandbox import boot_clock
from sandbox.contract import (
    Sandbox,
    SandboxFault,
    StopReason,
)
from tests.integration.sandbox.lives import (
    MIB,
    WITHIN_S,
    Backend,
    OrderMaker,
    ended,
    log_of,
    made,
    ran,
    running,
    says,
    until,
)


class LifeConformance(Backend):
    """What a job is given, how it ends, and what is kept; `sandbox` and `order` are the subclass's fixtures."""

    # -- the gate

    def test_nothing_of_the_tenants_runs_before_the_start(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran; echo ran >/out/ran")
        with made(sandbox, asked) as name:
            sandbox.verify(name, asked)
            assert sandbox.wait(name, asked, 0.3) is None
            assert log_of(asked) == b""
            sandbox.start(name, asked)
            assert ended(sandbox, name, asked).exit_code == 0
            assert log_of(asked) == b"ran\n"

    def test_creating_and_starting_twice_is_doing_it_once(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran")
        with made(sandbox, asked) as name:
            assert sandbox.create(asked) == name
            sandbox.verify(name, asked)
            sandbox.start(name, asked)
            sandbox.start(name, asked)
            first = ended(sandbox, name, asked)
            assert sandbox.create(asked) == name
            sandbox.start(name, asked)
            assert ended(sandbox, name, asked) == first
            assert log_of(asked) == b"ran\n"

    def test_another_fence_finds_no_sandbox_of_its_own(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sleep", "60")
        with made(sandbox, asked) as name:
            with pytest.raises(SandboxFault):
                sandbox.create(replace(asked, fence=Fence(asked.fence + 1)))
            assert sandbox.wait(name, asked, 0.1) is None

    def test_a_stop_before_the_start_wins(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran")
        with made(sandbox, asked) as name:
            sandbox.stop(name, asked, StopReason.CANCELLED, 1_000_000)
            sandbox.start(name, asked)
            end = ended(sandbox, name, asked)
            assert (end.is_gate_opened, end.stop_reason, end.exit_code) == (False, StopReason.CANCELLED, None)
            assert end.run_us == 0
            assert log_of(asked) == b""

    def test_after_its_deadline_for_silence_it_does_not_start(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "echo ran", unreachable_at_us=boot_clock.now_us() + 1_500_000)
        with made(sandbox, asked) as name:
            until(lambda: boot_clock.now_us() > (asked.unreachable_at_us or 0))
            sandbox.start(name, asked)
            end = ended(sandbox, name, asked)
            assert (end.is_gate_opened, end.stop_reason) == (False, StopReason.UNREACHABLE)
            assert log_of(asked) == b""

    # -- what the command sees

    def test_arguments_arrive_as_they_were_given(self, sandbox: Sandbox, order: OrderMaker) -> None:
        words = ("a b", "", "*", "$HOME", "two\nlines", "-n", "'\"\\", "ü")
        end = ran(sandbox, order("sh", "-c", 'for word; do printf "<%s>" "$word"; done', "name", *words))
        assert end.log == "".join(f"<{word}>" for word in words).encode()

    def test_the_environment_is_the_tenants_and_the_platforms(
        self, sandbox: Sandbox, order: OrderMaker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AGENTS_SECRET", "s3cret")
        given = {"WORD": "a b", "EMPTY": "", "path": "lower"}
        end = ran(sandbox, order("env", env=given))
        found = dict(line.split("=", 1) for line in end.log.decode().splitlines())
        assert found.items() >= given.items()
        assert b"s3cret" not in end.log
        ours = {"HOME", "HOSTNAME", "LANG", "NVIDIA_VISIBLE_DEVICES", "PATH", "PWD", "SHLVL", "TMPDIR", "USER", "_"}
        assert found.keys() - given.keys() <= ours

    def test_it_begins_in_its_scratch_space_with_three_descriptors(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = "pwd; for each in 0 1 2 3 4 5 6 7 8 9 10 11 12; do [ -e /proc/$$/fd/$each ] && echo $each; done; :"
        assert ran(sandbox, order("sh", "-c", script)).log == b"/scratch\n0\n1\n2\n"
        assert ran(sandbox, order("pwd", scratch_bytes=0)).log == b"/tmp\n"

    def test_what_it_leaves_in_its_output_is_there_after_the_end(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order("sh", "-c", "mkdir /out/a; echo one >/out/a/b; echo two >/out/c"))
        assert end.files == {"a/b": b"one\n", "c": b"two\n"}

    def test_inputs_are_there_to_be_read(self, sandbox: Sandbox, order: OrderMaker, tmp_path: Path) -> None:
        folder = tmp_path / "inputs"
        folder.mkdir()
        (folder / "data").write_bytes(b"42")
        (folder / "data").chmod(0o644)
        folder.chmod(0o755)
        script = "cat /in/data; echo x >/in/data || rm /in/data || echo refused"
        end = ran(sandbox, order("sh", "-c", f"({script}) 2>/dev/null", input_dir=folder))
        assert end.log == b"42refused\n"

    # -- the end

    @pytest.mark.parametrize("code", [0, 1, 2, 41, 124, 125, 126, 127, 128, 129, 137, 143, 200, 254, 255])
    def test_exit_codes_are_what_they_were(self, sandbox: Sandbox, order: OrderMaker, code: int) -> None:
        end = ran(sandbox, order("sh", "-c", f"exit {code}")).exit
        assert (end.exit_code, end.is_oom_killed, end.stop_reason, end.error) == (code, False, None, "")
        assert end.is_gate_opened
        assert 0 < end.run_us < WITHIN_S * 1e6
        assert end.stop_us == 0

    @pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL, signal.SIGUSR1, signal.SIGSEGV, signal.SIGTERM])
    def test_signals_count_as_128_more(self, sandbox: Sandbox, order: OrderMaker, number: signal.Signals) -> None:
        end = ran(sandbox, order("sh", "-c", f"kill -{number.value} $$")).exit
        assert (end.exit_code, end.is_oom_killed, end.stop_reason) == (128 + number, False, None)

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            ("no-such-command", 127),
            ("/no/such/file", 127),
            ("./no-such-file", 127),
            ("", 127),
            ("-x/y", 127),
            ("/tmp", 126),
            ("/etc/passwd", 126),
            ("/proc/self/status", 126),
        ],
    )
    def test_a_command_that_is_none_says_so(self, sandbox: Sandbox, order: OrderMaker, command: str, code: int) -> None:
        end = ran(sandbox, order(command))
        assert end.exit.exit_code == code
        assert end.exit.is_gate_opened
        assert end.log.startswith(b"corral: ")

    def test_the_time_limit_ends_it(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order("sleep", "60", time_limit_us=400_000)).exit
        assert (end.exit_code, end.stop_reason) == (143, StopReason.TIME_LIMIT)
        assert 400_000 <= end.run_us < 2_000_000

    def test_one_that_stopped_itself_is_ended_all_the_same(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order("sh", "-c", "kill -STOP $$", time_limit_us=300_000, grace_us=300_000)).exit
        assert (end.exit_code, end.stop_reason) == (137, StopReason.TIME_LIMIT)

    def test_one_that_ignores_sigterm_is_killed_after_the_grace(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            sandbox.stop(name, asked, StopReason.CANCELLED, 500_000)
            end = ended(sandbox, name, asked)
        assert (end.exit_code, end.stop_reason) == (137, StopReason.CANCELLED)
        assert 500_000 <= end.stop_us < 5_000_000

    def test_one_that_heeds_sigterm_ends_as_it_likes(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = "trap 'echo saved; exit 3' TERM; echo ready; while :; do sleep 0.05; done"
        asked = order("sh", "-c", script)
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            sandbox.stop(name, asked, StopReason.PREEMPTED, 30_000_000)
            sandbox.stop(name, asked, StopReason.CANCELLED, 30_000_000)  # the first reason counts
            end = ended(sandbox, name, asked)
        assert (end.exit_code, end.stop_reason) == (3, StopReason.PREEMPTED)
        assert log_of(asked) == b"ready\nsaved\n"

    def test_one_that_is_stopped_can_read_why(self, sandbox: Sandbox, order: OrderMaker) -> None:
        told = "cat /.corral/stop; : 2>/dev/null >>/.corral/stop && echo written; exit 3"
        asked = order("sh", "-c", f"trap '{told}' TERM; echo ready; while :; do sleep 0.05; done")
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            sandbox.stop(name, asked, StopReason.BUDGET_EXHAUSTED, 30_000_000)
            ended(sandbox, name, asked)
        assert log_of(asked) == b"ready\nbudget_exhausted\n"

    def test_a_second_stop_can_only_hurry(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
        with running(sandbox, asked) as name:
            until(says(asked, b"ready"))
            sandbox.stop(name, asked, StopReason.PREEMPTED, 600_000_000)
            sandbox.stop(name, asked, StopReason.CANCELLED, 0)
            end = ended(sandbox, name, asked)
        assert (end.exit_code, end.stop_reason) == (137, StopReason.PREEMPTED)

    def test_silence_ends_it_unless_the_deadline_moves(self, sandbox: Sandbox, order: OrderMaker) -> None:
        now = boot_clock.now_us()
        quiet = order("sleep", "60", unreachable_at_us=now + 2_500_000)
        heard = order("sh", "-c", "sleep 4; exit 4", unreachable_at_us=now + 2_500_000)
        with running(sandbox, quiet) as one, running(sandbox, heard) as other:
            sandbox.extend(other, heard, now + 60_000_000)
            sandbox.extend(other, heard, now)  # never back
            assert ended(sandbox, one, quiet).stop_reason is StopReason.UNREACHABLE
            end = ended(sandbox, other, heard)
            assert (end.exit_code, end.stop_reason) == (4, None)

    def test_what_it_left_running_is_gone_with_it(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order("sh", "-c", "(setsid sleep 1234 >/dev/null 2>&1 &); (trap '' TERM HUP; sleep 1234) & exit 0")
        with running(sandbox, asked) as name:
            assert ended(sandbox, name, asked).exit_code == 0
            until(lambda: sandbox.pids(name) == frozenset())

    def test_one_that_kills_everything_it_can_harms_itself_only(self, sandbox: Sandbox, order: OrderMaker) -> None:
        quiet = order("sh", "-c", "sleep 2; exit 5")
        with running(sandbox, quiet) as other:
            end = ran(
                sandbox,
                order(
                    "sh",
                    "-c",
                    "kill -9 -1 2>/dev/null; kill -9 1 2>/dev/null; sleep 0.2; echo alive; exit 6",
                ),
            )
            assert (end.exit.exit_code, end.log) == (6, b"alive\n")
            assert ended(sandbox, other, quiet).exit_code == 5

    def test_one_that_closes_its_output_works_on(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order("sh", "-c", "exec <&- >&- 2>&-; sleep 0.5; echo done >/out/done; exit 5"))
        assert (end.exit.exit_code, end.files) == (5, {"done": b"done\n"})

    # -- limits

    def test_a_fork_bomb_is_bounded(self, sandbox: Sandbox, order: OrderMaker) -> None:
        bomb = "f() { f & f & sleep 30; }; f 2>/dev/null"
        asked = order("sh", "-c", bomb, pids_limit=40, cpus_milli=500)
        with running(sandbox, asked) as name:
            until(lambda: len(sandbox.pids(name)) > 10)
            most = max(len(sandbox.pids(name)) for _ in range(50))
            sandbox.stop(name, asked, StopReason.CANCELLED, 100_000)
            ended(sandbox, name, asked)
            until(lambda: sandbox.pids(name) == frozenset())
        assert most <= 42

    def test_too_much_memory_is_an_end_of_its_own(self, sandbox: Sandbox, order: OrderMaker) -> None:
        if not self.limits_memory:
            pytest.skip("this host lets us limit no memory")
        asked = order("sh", "-c", "head -c 400000000 /dev/zero | tail -c 400000000 >/dev/null; exit $?")
        end = ran(sandbox, replace(asked, memory_bytes=64 * MIB)).exit
        assert (end.exit_code, end.is_oom_killed) == (137, True)

    @pytest.mark.parametrize("place", ["/tmp", "/scratch", "/out", "/dev/shm"])
    def test_every_writable_place_has_an_end(self, sandbox: Sandbox, order: OrderMaker, place: str) -> None:
        script = f"dd if=/dev/zero of={place}/x bs=1000000 count=80 2>/dev/null; wc -c <{place}/x; rm {place}/x"
        sizes = {"scratch_bytes": 8 * MIB, "output_bytes": 8 * MIB, "shm_bytes": 8 * MIB, "memory_bytes": 64 * MIB}
        end = ran(sandbox, order("sh", "-c", script, **sizes))
        assert end.exit.exit_code == 0
        assert MIB < int(end.log) <= 33 * MIB

    @pytest.mark.parametrize("place", ["/tmp", "/scratch", "/out", "/dev/shm"])
    def test_every_writable_place_has_an_end_of_files(self, sandbox: Sandbox, order: OrderMaker, place: str) -> None:
        script = "i=0; while [ $i -lt 70000 ] && true >$0/$i; do i=$((i+1)); done 2>/dev/null; echo $i"
        end = ran(sandbox, order("sh", "-c", script, place, memory_bytes=256 * MIB, cpus_milli=2000))
        assert 100 < int(end.log.splitlines()[-1]) <= 65_536

    def test_nothing_else_can_be_written_to(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = (
            "for d in / /bin /etc /usr /usr/bin /dev /proc /in /.corral; do (: >$d/x) 2>/dev/null && echo $d; done; :"
        )
        assert ran(sandbox, order("sh", "-c", script)).log == b""

    # -- the log

    def test_output_and_error_are_one_stream_in_order(self, sandbox: Sandbox, order: OrderMaker) -> None:
        assert ran(sandbox, order("sh", "-c", "echo a; echo b >&2; echo c; printf d")).log == b"a\nb\nc\nd"

    def test_every_byte_is_kept(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = 'i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done'
        assert ran(sandbox, order("sh", "-c", script)).log == bytes(range(256))

    def test_a_line_of_ten_megabytes_is_kept(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order("sh", "-c", "head -c 10000000 /dev/zero", log_bytes_max=16 * MIB))
        assert end.log == bytes(10_000_000)

    def test_a_flood_is_cut_and_marked(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last; exit 7"
        end = ran(sandbox, order("sh", "-c", script, log_bytes_max=100_000))
        assert end.exit.exit_code == 7
        assert end.log[:100_000] == b"x" * 100_000
        assert end.log[100_000:].startswith(b"\n[corral: ")
        assert end.log.count(b"\n") == 2

    def test_too_fast_a_writer_is_slowed_and_loses_nothing(self, sandbox: Sandbox, order: OrderMaker) -> None:
        size = 400_000
        end = ran(sandbox, order("sh", "-c", f"head -c {size} /dev/zero", log_bytes_per_second=100_000))
        assert end.log == bytes(size)
        assert end.exit.run_us > 1_000_000
