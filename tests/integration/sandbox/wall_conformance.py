"""What nothing that runs in a sandbox can do or see, whichever wall it is, and what is recorded of it."""

import os
import socket
import time
from dataclasses import replace

import pytest

from domain.ids import TenantId
from sandbox.contract import (
    FactSource,
    Sandbox,
    SandboxFault,
    SandboxId,
    WeakerThanAsked,
)
from sandbox.runner_link import LOG
from tests.integration.sandbox.lives import (
    MIB,
    WITHIN_S,
    Backend,
    OrderMaker,
    made,
    ran,
    running,
)


class WallConformance(Backend):
    """No way out, and a record that is true; `sandbox` and `order` are the subclass's fixtures."""

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
