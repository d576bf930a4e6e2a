"""Sets on a waiting sandbox's file systems what bubblewrap cannot: a number of inodes, and no programs in the output.

`python -I -S -B tighten.py GATE_PID JSON`, with JSON a list of `[path, flags, options]`. Standard library only. It is a
process of its own: it enters the sandbox's mount namespace (and, where the agent is no root, the user namespace that
owns it) and ends there. Nothing of the tenant's runs yet.
"""

import ctypes
import fcntl
import json
import os
import sys

NS_GET_PARENT = 0xB702
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REMOUNT = 32

libc = ctypes.CDLL(None, use_errno=True)


def main(pid: int, remounts: list[tuple[str, int, str]]) -> None:
    """Enter and remount each."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if os.geteuid() != 0:  # root may do it from where it is
        inner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
        check(libc.setns(fcntl.ioctl(inner, NS_GET_PARENT), CLONE_NEWUSER), "the sandbox's user namespace")
    check(libc.setns(mounts, CLONE_NEWNS), "the sandbox's mount namespace")
    for path, flags, options in remounts:
        check(libc.mount(b"none", path.encode(), None, MS_REMOUNT | flags, options.encode()), path)


def check(result: int, what: str) -> None:
    """Raise the C library's complaint."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
