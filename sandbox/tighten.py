"""Does in a waiting sandbox what bubblewrap cannot: bounds its file systems, and brings the secrets.

A process of its own, told on its standard input: it enters the sandbox's mount namespace (and, where the agent is no
root, the user namespace that owns it) and ends there. Standard library only. Nothing of the tenant's runs yet.
"""

import base64
import ctypes
import fcntl
import json
import os
import sys
from pathlib import Path
from typing import Any

from sandbox.secret_mount import mount_secrets

NS_GET_PARENT = 0xB702
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_REMOUNT = 32

libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Enter, remount each, and mount the secrets if there are any."""
    told: dict[str, Any] = json.load(sys.stdin)
    is_root = os.geteuid() == 0
    enter(told["gate_pid"])
    for path, flags, options in told["remounts"]:
        check(libc.mount(b"none", path.encode(), None, MS_REMOUNT | flags, options.encode()), path)
    if told["secrets"]:
        values = {name: base64.b64decode(value) for name, value in told["secrets"].items()}
        # in that user namespace our own user, which is the job's too, may have another number
        uid, gid = (told["uid"], told["gid"]) if is_root else (os.geteuid(), os.getegid())
        mount_secrets(Path(told["secrets_place"]), values, uid, gid)


def enter(pid: int) -> None:
    """Be where process `pid` is, as far as mounts go."""
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
    if os.geteuid() != 0:  # root may do it from where it is
        inner = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
        check(libc.setns(fcntl.ioctl(inner, NS_GET_PARENT), CLONE_NEWUSER), "the sandbox's user namespace")
    check(libc.setns(mounts, CLONE_NEWNS), "the sandbox's mount namespace")


def check(result: int, what: str) -> None:
    """Raise the C library's complaint."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
