"""A read-only tmpfs that holds an attempt's secrets as files, for one user. Standard library only, on purpose.

Nothing of them is ever on a disk: where the kernel can (Linux 6.3), the tmpfs is kept out of swap too.
"""

import ctypes
import errno
import os
from collections.abc import Mapping
from pathlib import Path

FILE_BYTES_MAX = 64 * 1024
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
FLAGS = MS_NOSUID | MS_NODEV | MS_NOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


def size_bytes(count: int) -> int:
    """Size of the tmpfs for so many secrets."""
    return count * FILE_BYTES_MAX + 4096


def inodes(count: int) -> int:
    """Files that it may have: the secrets, the folder itself, and the kernel's own bookkeeping."""
    return count + 2


def mount_secrets(target: Path, values: Mapping[str, bytes], uid: int, gid: int) -> None:
    """Mount it on the folder `target`, each value a file of mode 0400; read-only when this returns.

    One that is whole already stays as it is: the job's first values count.

    Raises:
        OSError: the kernel refuses.
    """
    if is_mount(target):
        if os.statvfs(target).f_flag & os.ST_RDONLY:
            return
        _check(_libc.umount2(os.fsencode(target), 0), f"unmounting {target}")  # a crash left it half made
    _mount(target, f"size={size_bytes(len(values))},nr_inodes={inodes(len(values))},mode=0700,uid={uid},gid={gid}")
    for name, value in values.items():
        _write(target / name, value, uid, gid)
    target.chmod(0o500)
    _check(
        _libc.mount(b"none", os.fsencode(target), None, ctypes.c_ulong(MS_REMOUNT | MS_RDONLY | FLAGS), None),
        f"closing {target}",
    )


def is_mount(target: Path) -> bool:
    """Whether something is mounted on `target`; a link there is not followed."""
    try:
        return target.lstat().st_dev != target.parent.lstat().st_dev
    except FileNotFoundError:
        return False


def _mount(target: Path, options: str) -> None:
    """Out of swap, where the kernel knows of that and this user may ask for it."""
    for said in (f"{options},noswap", options):
        if _libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", ctypes.c_ulong(FLAGS), said.encode()) == 0:
            return
        if ctypes.get_errno() != errno.EINVAL:
            break
    _check(-1, f"mounting {target}")


def _write(file: Path, value: bytes, uid: int, gid: int) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o400)
    try:
        if os.geteuid() == 0:
            os.fchown(fd, uid, gid)
        view = memoryview(value)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        os.close(fd)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
