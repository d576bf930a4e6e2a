"""What every sandbox backend must do, whichever wall it builds: one class, subclassed for each backend.

A subclass gives two fixtures, `sandbox` and `order`, and says what its host can do. Commands are POSIX shell, so that
an image of one busybox is enough.
"""

import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from domain.ids import Fence, TenantId
from sandbox import boot_clock
from sandbox.collect import CollectLimits, Collector
from sandbox.contract import (
    Exit,
    FactSource,
    IsolationRecord,
    LaunchOrder,
    Sandbox,
    SandboxFault,
    SandboxId,
    StopReason,
    WeakerThanAsked,
)
from sandbox.runner_link import LOG, RunnerLink, spawn

MIB = 1 << 20
WITHIN_S = 60.0
OrderMaker = Callable[..., LaunchOrder]


@dataclass(frozen=True)
class Ended:
    """All that is left of a sandbox's life."""

    exit: Exit
    log: bytes
    files: dict[str, bytes]
    record: IsolationRecord


@contextmanager
def made(sandbox: Sandbox, order: LaunchOrder) -> Iterator[SandboxId]:
    """A sandbox whose gate waits; removed afterwards."""
    name = sandbox.create(order)
    try:
        yield name
    finally:
        sandbox.remove(name, order)


@contextmanager
def running(sandbox: Sandbox, order: LaunchOrder) -> Iterator[SandboxId]:
    """A sandbox whose gate is open; removed afterwards."""
    with made(sandbox, order) as name:
        sandbox.verify(name, order)
        sandbox.start(name, order)
        yield name


def ended(sandbox: Sandbox, name: SandboxId, order: LaunchOrder) -> Exit:
    """Its end, which must come."""
    found = sandbox.wait(name, order, WITHIN_S)
    assert found is not None, "it has not ended"
    return found


def ran(sandbox: Sandbox, order: LaunchOrder) -> Ended:
    """Its whole life."""
    with made(sandbox, order) as name:
        record = sandbox.verify(name, order)
        sandbox.start(name, order)
        end = ended(sandbox, name, order)
        fd = sandbox.output_fd(name, order)
        try:
            files = {file.name: os.read(file.fd, MIB) for file in Collector(fd, CollectLimits()).files()}
        finally:
            os.close(fd)
        return Ended(end, log_of(order), files, record)


def log_of(order: LaunchOrder) -> bytes:
    """What the runner wrote down of its output so far."""
    path = order.state_dir / LOG
    return path.read_bytes() if path.exists() else b""


def until(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + within_s
    pause = threading.Event()
    while not holds():
        assert time.monotonic() < deadline, "it has not come about"
        pause.wait(0.01)


def says(order: LaunchOrder, word: bytes) -> Callable[[], bool]:
    """Whether the job has written this word."""
    return lambda: word in log_of(order)


def kill_runner(order: LaunchOrder) -> int:
    """`kill -9` the runner and wait until it is gone; its number."""
    pid = RunnerLink(order.state_dir).state().runner_pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: not RunnerLink(order.state_dir).is_running())
    return pid


class SandboxConformance:
    """The suite. `sandbox` and `order` are the subclass's fixtures."""

    dies_with_runner = False
    """Whether the sandbox is the runner's child."""
    limits_memory = True
    harmless: frozenset[bytes] = frozenset()
    """What `test_a_shell_finds_no_way_out` and its like may report here, with the reason in the subclass."""
    python: tuple[str, ...] | None = None
    """A Python inside, for what a shell cannot try; None if there is none."""

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
        asked = order("sh", "-c", bomb, pids_limit=40, time_limit_us=2_000_000, grace_us=100_000, cpus_milli=500)
        most = 0
        with running(sandbox, asked) as name:
            while sandbox.wait(name, asked, 0.05) is None:
                most = max(most, len(sandbox.pids(name)))
            until(lambda: sandbox.pids(name) == frozenset())
        assert 10 < most <= 42

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

    # -- ways out

    def test_a_shell_finds_no_way_out(self, sandbox: Sandbox, order: OrderMaker) -> None:
        tries = (
            "mount -t tmpfs none /tmp",
            "umount /proc",
            "umount /proc/1",
            "unshare -U true",
            "unshare -m true",
            "mknod /tmp/disk b 254 0",
            "chroot / true",
            "echo h >/proc/sysrq-trigger",
            "echo x >/proc/sys/kernel/core_pattern",
            "echo 1 >/proc/sys/vm/drop_caches",
            "mkdir /sys/fs/cgroup/x",
            "mkdir /sys/fs/cgroup/memory/x",
            "cat /proc/1/environ",
            "cat /proc/1/mem",
            "ls /proc/1/root/",
            "cat /proc/kcore",
            "cat /etc/shadow",
            "test -s /proc/keys",
            "ls /var/run/docker.sock",
            "ls /run/docker.sock",
            "ls /run/containerd/containerd.sock",
            "ls /home/*",
            "ls /var/lib/*",
            "dmesg",
            "hostname other",
            "ulimit -Hc unlimited",
            "nice -n -5 true",
            "chown 0 /scratch",
            "wget -T 2 -O - http://169.254.169.254/",
            "wget -T 2 -O - http://127.0.0.1:22/",
        )
        lines = "\n".join(f"({each}) >/dev/null 2>&1 && echo '{each}'" for each in tries)
        allowed = {b"nice -n -5 true", *self.harmless}  # some only complain
        assert set(ran(sandbox, order("sh", "-c", f"{lines}\n:")).log.splitlines()) - allowed == set()

    def test_it_sees_its_own_processes_only(self, sandbox: Sandbox, order: OrderMaker) -> None:
        script = "for each in /proc/[0-9]*; do cat $each/cmdline 2>/dev/null | tr '\\0' ' '; echo; done"
        quiet = order("sleep", "1235")
        with running(sandbox, quiet):
            log = ran(sandbox, order("sh", "-c", script)).log
        assert b"1235" not in log
        assert b"dockerd" not in log
        assert len(log.splitlines()) < 8

    def test_it_learns_nothing_of_another_ones_volumes(self, sandbox: Sandbox, order: OrderMaker) -> None:
        """A loop device names its file, and with it the attempt; its counters tell what that job reads and writes."""
        places = "/sys/block/*/loop/* /sys/devices/virtual/block/*/loop/* /proc/diskstats /proc/partitions /proc/locks"
        script = f"cat {places} 2>/dev/null; find /sys /proc/fs -name 'loop[0-9]*' -o -path '*/bdi/7:*' 2>/dev/null"
        quiet = order("sleep", "60")
        with running(sandbox, quiet):
            assert ran(sandbox, order("sh", "-c", script)).log == b""

    def test_what_the_kernel_counts_by_user_is_each_tenants_own(self, sandbox: Sandbox, order: OrderMaker) -> None:
        if os.geteuid() != 0:
            pytest.skip("the agent is no root here, and cannot choose the job's user")
        greedy = order(*self._python(), "-c", USER_COUNTS_TAKEN, tenant_id=TenantId("ten_greedy"))
        with running(sandbox, greedy):
            log, deadline = greedy.state_dir / LOG, time.monotonic() + WITHIN_S
            while b"taken" not in log.read_bytes():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert ran(sandbox, order(*self._python(), "-c", USER_COUNTS_TRIES)).log == b"tried\n"

    def test_no_device_but_the_harmless(self, sandbox: Sandbox, order: OrderMaker) -> None:
        harmless = [
            "console",
            "core",
            "fd",
            "full",
            "mqueue",
            "null",
            "ptmx",
            "pts",
            "random",
            "shm",
            "stderr",
            "stdin",
            "stdout",
            "tty",
            "urandom",
            "zero",
        ]
        found = ran(sandbox, order("ls", "/dev", env={})).log.decode().split()
        assert set(found) <= set(harmless)

    def test_no_gpu_by_environment(self, sandbox: Sandbox, order: OrderMaker) -> None:
        for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "LD_PRELOAD"):
            with pytest.raises(SandboxFault):
                sandbox.create(asked := order("true", env={name: "all"}))
            sandbox.remove(SandboxId(f"corral-{asked.attempt_id}"), asked)

    def test_the_hosts_sockets_are_out_of_reach(self, sandbox: Sandbox, order: OrderMaker) -> None:
        python = self._python()
        name = f"corral-test-{os.getpid()}"
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_INET) as tcp:
            abstract.bind(f"\0{name}")
            abstract.listen()
            tcp.bind(("127.0.0.1", 0))
            tcp.listen()
            end = ran(sandbox, order(*python, "-c", SOCKET_TRIES, name, str(tcp.getsockname()[1])))
        assert end.log == b"tried\n"

    def test_system_calls_that_lead_out_are_refused(self, sandbox: Sandbox, order: OrderMaker) -> None:
        end = ran(sandbox, order(*self._python(), "-c", CALL_TRIES))
        assert set(end.log.splitlines()) - self.harmless == {b"tried"}
        assert end.exit.exit_code == 0

    def test_an_ordinary_program_runs(self, sandbox: Sandbox, order: OrderMaker) -> None:
        asked = order(*self._python(), "-c", ORDINARY, memory_bytes=512 * MIB, shm_bytes=64 * MIB)
        end = ran(sandbox, asked)
        assert end.log.splitlines()[-1:] == [b"all well"]

    # -- the record

    def test_the_record_tells_what_was_asked_and_found(self, sandbox: Sandbox, order: OrderMaker) -> None:
        record = ran(sandbox, order("true")).record
        facts = {fact.name: fact for fact in record.facts}
        assert record.level is sandbox.level
        assert record.runtime
        assert record.kernel == os.uname().release
        for name in ("uid", "capabilities", "no_new_privileges", "seccomp", "namespace_pid", "network_devices"):
            assert facts[name].source is FactSource.OBSERVED

    @pytest.mark.parametrize("name", ["shm_bytes", "memory_bytes", "pids_limit", "cpus_milli"])
    def test_a_weaker_sandbox_than_asked_is_refused(self, sandbox: Sandbox, order: OrderMaker, name: str) -> None:
        asked = order("true", shm_bytes=8 * MIB, cpus_milli=1000)
        if name in ("memory_bytes", "cpus_milli") and not self.limits_memory:
            pytest.skip("this host lets us limit neither")
        with made(sandbox, asked) as made_one:
            sandbox.verify(made_one, asked)
            with pytest.raises(WeakerThanAsked):
                sandbox.verify(made_one, replace(asked, **{name: getattr(asked, name) // 2}))

    def test_a_probe_is_a_real_run_and_leaves_nothing(self, sandbox: Sandbox, order: OrderMaker) -> None:
        probe = sandbox.probe()
        assert probe.is_offered, probe.reasons
        assert probe.level is sandbox.level
        assert sandbox.list() == ()

    # -- crashes

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

    def _python(self) -> tuple[str, ...]:
        if self.python is None:
            pytest.skip("no Python inside")
        return self.python


SOCKET_TRIES = """
import socket, sys
def attempt(what, family, address, kind=socket.SOCK_STREAM):
    try:
        with socket.socket(family, kind) as one:
            one.settimeout(2)
            one.connect(address)
            print("reached", what)
    except OSError:
        pass
attempt("abstract", socket.AF_UNIX, "\\0" + sys.argv[1])
attempt("loopback", socket.AF_INET, ("127.0.0.1", int(sys.argv[2])))
attempt("metadata", socket.AF_INET, ("169.254.169.254", 80))
attempt("engine", socket.AF_UNIX, "/var/run/docker.sock")
attempt("raw", socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_RAW)
attempt("packet", socket.AF_PACKET, ("lo", 0), socket.SOCK_RAW)
attempt("vsock", 40, (2, 1024))
attempt("alg", 38, ("hash", "sha256"), socket.SOCK_SEQPACKET)
print("tried")
"""

USER_COUNTS_TAKEN = """
import ctypes, time
libc = ctypes.CDLL(None)
while libc.inotify_init() >= 0: pass
while any(libc.syscall(240, b"q%d" % i, 0o302, 0o600, 0) >= 0 for i in range(256)): pass  # mq_open
print("taken", flush=True)
time.sleep(60)
"""

USER_COUNTS_TRIES = """
import ctypes
libc = ctypes.CDLL(None)
if libc.inotify_init() < 0: print("no inotify")
if libc.syscall(240, b"q", 0o302, 0o600, 0) < 0: print("no message queue")
print("tried")
"""

CALL_TRIES = """
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {  # x86_64
    "ptrace": (101, 16, os.getppid(), 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, b"/proc/1", 2),
    "pivot_root": (155, b"/", b"/"),
    "chroot": (161, b"/"),
    "unshare user": (272, 0x10000000),
    "unshare mount": (272, 0x20000),
    "setns": (308, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "keyctl": (250, 0, -3, 1),
    "add_key": (248, b"user", b"a", b"b", 1, -3),
    "request_key": (249, b"user", b"a", 0, -3),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, ctypes.create_string_buffer(120)),
    "init_module": (175, 0, 0, b""),
    "finit_module": (313, 0, b"", 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "process_vm_readv": (310, os.getpid(), 0, 0, 0, 0, 0),
    "process_vm_writev": (311, os.getpid(), 0, 0, 0, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "syslog": (103, 10, 0, 0),
    "iopl": (172, 3),
    "reboot": (169, 0, 0, 0),
    "swapon": (167, b"/tmp", 0),
    "acct": (163, b"/tmp"),
    "settimeofday": (164, 0, 0),
    "personality": (135, 0x0400000),
    "clone user": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "clone3": (435, ctypes.create_string_buffer(88), 88),
    "fsopen": (430, b"tmpfs", 0),
    "open_tree": (428, -100, b"/", 1),
    "pidfd_getfd": (438, 0, 0, 0),
    "quotactl": (179, 0, 0, 0, 0),
    "fanotify_init": (300, 0, 0),
    "sethostname": (170, b"x", 1),
    "netlink of devices": (41, 16, 3, 15),
    "netlink of audits": (41, 16, 3, 9),
}
if platform.machine() == "x86_64":
    for name, (number, *arguments) in numbers.items():
        result = libc.syscall(number, *arguments)
        if name.startswith("clone") and result == 0:
            os._exit(0)
        if result != -1 or ctypes.get_errno() not in (1, 38):
            print(name, result, ctypes.get_errno())
places = ("/proc/1/mem", "/proc/1/root/etc/passwd", "/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse")
for path in places:
    try:
        os.open(path, os.O_RDWR)
        print("opened", path)
    except OSError:
        pass
print("tried")
"""

ORDINARY = """
import ctypes, mmap, multiprocessing, os, pty, random, select, signal, socket, sqlite3, subprocess, tempfile, threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import shared_memory

def square(number):
    return number * number

if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(square, range(100))) == 328350
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    shared = shared_memory.SharedMemory(create=True, size=1 << 20)
    shared.buf[0] = 7
    shared.close()
    shared.unlink()
    mapped = mmap.mmap(-1, 1 << 20)
    mapped[:3] = b"abc"
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    other, _ = server.accept()
    client.sendall(b"x")
    assert other.recv(1) == b"x"
    assert socket.if_nameindex()
    left, right = socket.socketpair()
    left.close(); right.close()
    assert subprocess.run(["sh", "-c", "echo hi | cat"], capture_output=True).stdout == b"hi\\n"
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x" * 100000)
        file.flush()
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    database = sqlite3.connect("/scratch/data.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("CREATE TABLE t (a)")
    database.commit()
    memory = os.memfd_create("x")
    os.write(memory, b"1")
    parent, child = pty.openpty()
    poll = select.epoll()
    poll.register(parent)
    poll.close()
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    signal.pause()
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    os.mkfifo("/tmp/fifo")
    assert os.getrandom(8)
    assert os.environ["HOME"]
    print("all well")
"""
