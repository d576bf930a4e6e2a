"""The policy on system calls: what it must never allow, what programs cannot do without, and its two forms."""

import ctypes
import ctypes.util
import json
import platform
import struct
from errno import ENOSYS, EPERM

import pytest

from sandbox.seccomp import engine_profile, policy
from sandbox.seccomp_filter import kernel_filter

NEVER_CALLS = """
acct add_key bpf chroot clone3 delete_module fanotify_init finit_module fsconfig fsmount fsopen init_module
io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl mount
mount_setattr move_mount open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise
process_vm_readv process_vm_writev ptrace quotactl reboot request_key setns settimeofday swapon swapoff syslog
umount2 unshare userfaultfd uselib vm86
"""
NEVER = set(NEVER_CALLS.split())
NEEDED_CALLS = """
brk clock_gettime clone close dup2 epoll_wait execve exit_group fcntl futex getrandom ioctl kill madvise mmap
mprotect munmap openat pipe2 prctl read recvmsg rseq rt_sigaction rt_sigreturn sched_getaffinity
set_robust_list shmat socket statx wait4 write
"""
NEEDED = set(NEEDED_CALLS.split())
ALLOWED, REFUSED, UNKNOWN = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS
AUDIT_X86_64 = 0xC000003E


def test_nothing_that_leads_out_is_allowed() -> None:
    rules = policy()
    assert not NEVER & set(rules.allowed)
    assert not NEVER & {each.call for each in rules.conditions}


def test_what_every_program_needs_is_allowed() -> None:
    rules = policy()
    assert {*rules.allowed, *(each.call for each in rules.conditions)} >= NEEDED


def test_no_call_stands_twice() -> None:
    rules = policy()
    named = [*rules.allowed, *rules.refused]
    assert len(named) == len(set(named))
    assert not {each.call for each in rules.conditions} & set(named)


def test_the_engines_form_denies_by_default() -> None:
    profile = json.loads(engine_profile())
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert len(profile["architectures"]) == 1
    allowed = {name for rule in profile["syscalls"] if rule["action"] == "SCMP_ACT_ALLOW" for name in rule["names"]}
    assert not allowed & NEVER
    assert {rule["action"] for rule in profile["syscalls"]} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers below are x86_64's")
@pytest.mark.parametrize(
    ("number", "arguments", "verdict"),
    [
        (0, (), ALLOWED),  # read
        (59, (), ALLOWED),  # execve
        (56, (0x11,), ALLOWED),  # clone: a process
        (56, (0x3D0F00,), ALLOWED),  # clone: a thread
        (56, (0x10000011,), UNKNOWN),  # clone: a user namespace
        (56, (0x00020011,), UNKNOWN),  # clone: a mount namespace
        (56, (0x40000011,), UNKNOWN),  # clone: a network namespace
        (41, (1, 1, 0), ALLOWED),  # socket: unix
        (41, (2, 1, 0), ALLOWED),
        (41, (17, 3, 0), UNKNOWN),  # socket: packets
        (41, (16, 3, 0), ALLOWED),  # socket: netlink about interfaces and routes
        *((41, (16, 3, family), UNKNOWN) for family in (4, 9, 11, 12, 15, 16, 20)),  # 15: events of the host's devices
        (41, (40, 1, 0), UNKNOWN),  # socket: to the hypervisor
        (53, (1, 1, 0), ALLOWED),  # socketpair: unix
        (53, (16, 1, 0), UNKNOWN),
        (135, (0,), ALLOWED),  # personality
        (135, (0xFFFFFFFF,), ALLOWED),
        (135, (0x0400000,), UNKNOWN),  # READ_IMPLIES_EXEC
        (101, (), REFUSED),  # ptrace
        (165, (), REFUSED),  # mount
        (272, (0x10000000,), REFUSED),  # unshare
        (321, (), REFUSED),  # bpf
        (250, (), REFUSED),  # keyctl
        (323, (), REFUSED),  # userfaultfd
        (298, (), REFUSED),  # perf_event_open
        (425, (), UNKNOWN),  # io_uring_setup
        (435, (), UNKNOWN),  # clone3
        (9999, (), UNKNOWN),
    ],
)
def test_the_kernels_form_decides_so(number: int, arguments: tuple[int, ...], verdict: int) -> None:
    if ctypes.util.find_library("seccomp") is None:
        pytest.skip("no libseccomp on this machine")
    assert decision(kernel_filter(), number, arguments) == verdict


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the architectures below are others than x86_64")
def test_calls_of_another_architecture_end_the_process() -> None:
    if ctypes.util.find_library("seccomp") is None:
        pytest.skip("no libseccomp on this machine")
    for architecture in (0x40000003, 0xC00000B7):  # i386, aarch64
        assert decision(kernel_filter(), 11, (), architecture) in (0x00000000, 0x80000000)
    assert decision(kernel_filter(), 0x40000000 | 59, ()) != ALLOWED  # x32


def decision(program: bytes, number: int, arguments: tuple[int, ...], architecture: int = AUDIT_X86_64) -> int:
    """What the kernel would decide: the classic BPF machine, as far as these programs use it."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", number, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("<HBBI", program))
    at, accumulator = 0, 0
    while True:
        code, if_true, if_false, constant = instructions[at]
        at += 1
        if code == 0x20:  # load a word
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif code == 0x54:  # and
            accumulator &= constant
        elif code == 0x05:  # jump
            at += constant
        elif code in (0x15, 0x25, 0x35):  # jump if equal, greater, greater or equal
            holds = {0x15: accumulator == constant, 0x25: accumulator > constant, 0x35: accumulator >= constant}[code]
            at += if_true if holds else if_false
        elif code == 0x06:  # return
            return constant
        else:
            raise AssertionError(f"an instruction that this machine does not know: {code:#x}")
