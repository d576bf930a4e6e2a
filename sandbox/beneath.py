"""Opens a name below a directory descriptor, and never anything else: no link is followed, no mount is crossed."""

import ctypes
import errno
import os
import stat
from typing import Final

OPENAT2: Final = 437
"""The call's number; one and the same on x86_64, aarch64 and every other architecture of today."""
RESOLVE_NO_XDEV: Final = 0x01
RESOLVE_NO_SYMLINKS: Final = 0x04
RESOLVE_BENEATH: Final = 0x08
HOW: Final = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV
SAFE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Non-blocking, so that a FIFO put in a file's place cannot hold the reader."""
ABSENT: Final = frozenset({errno.ENOSYS, errno.EPERM})
"""An older kernel, or a filter around this process that does not know the call."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def open_beneath(directory: int, name: bytes, flags: int = 0) -> int:
    """A descriptor of the entry `name` of `directory`, for reading; `name` is one component.

    Raises:
        OSError: ELOOP for a link, EXDEV for a mount, EINVAL for a name that is no single component, and the usual ones.
    """
    if b"/" in name or name in (b"", b".", b".."):
        raise OSError(errno.EINVAL, "not a single component", name)
    try:
        return _openat2(directory, name, SAFE_FLAGS | flags)
    except OSError as error:
        if error.errno not in ABSENT:
            raise
    return open_by_hand(directory, name, SAFE_FLAGS | flags)


def open_by_hand(directory: int, name: bytes, flags: int) -> int:
    """The same promise without openat2, for a kernel that lacks it: one component, not a link, on the same device."""
    fd = os.open(name, flags, dir_fd=directory)
    try:
        if os.fstat(fd).st_dev != os.fstat(directory).st_dev:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
    except OSError:
        os.close(fd)
        raise
    return fd


def kind_of(mode: int) -> str:
    """What a file is, in a word for the tenant."""
    kinds = {
        stat.S_IFREG: "a regular file",
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "of an unknown kind")


def _openat2(directory: int, name: bytes, flags: int) -> int:
    how = _OpenHow(flags=flags, mode=0, resolve=HOW)
    fd: int = _libc.syscall(
        ctypes.c_long(OPENAT2), ctypes.c_int(directory), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
    )
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    return fd
