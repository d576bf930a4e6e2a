"""Mounts image files, by the kernel's own calls: starting mount(8) and losetup(8) costs more than the work itself."""

import ctypes
import errno
import fcntl
import os
import struct
from pathlib import Path
from typing import Final

LOOP_CONFIGURE: Final = 0x4C0A
"""Linux 5.8 or later: file, flags and block size in one step, so that no half-made device can be left behind."""
LOOP_CTL_GET_FREE: Final = 0x4C82
AUTOCLEAR: Final = 4
"""The device lets go of its file with its last user: a crash leaks nothing but a mount, which has a name."""
TRIES: Final = 64
"""Between the asking for a free device and the taking of it, another process may have taken it."""

MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_NOATIME: Final = 0x400
MNT_DETACH: Final = 0x2
UMOUNT_NOFOLLOW: Final = 0x8

_libc = ctypes.CDLL(None, use_errno=True)


def mount_image(image: int, label: str, target: Path, may_execute: bool) -> None:
    """Mount an ext4 image, open for reading and writing as `image`, on `target`; set-uid bits and devices are void.

    Raises:
        OSError: no loop device is to be had, or the mount is refused (not root, no such file system).
    """
    flags = MS_NOSUID | MS_NODEV | MS_NOATIME | (0 if may_execute else MS_NOEXEC)
    device, path = _attach(image, label)
    try:
        # No barrier: the content need not outlive the host, as its attempt does not. No lazy init: it is thrown away.
        _check(
            _libc.mount(path.encode(), os.fsencode(target), b"ext4", ctypes.c_ulong(flags), b"noinit_itable,nobarrier"),
            f"mounting {path} on {target}",
        )
    finally:
        os.close(device)  # the mount holds it now; without one, it clears itself


def unmount(target: Path) -> None:
    """Unmount what is on `target`, now or, while somebody holds it, with its last user. Nothing there: nothing done.

    Raises:
        OSError: the kernel refuses.
    """
    try:
        _check(_libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW), f"unmounting {target}")
    except OSError as error:
        if error.errno == errno.EBUSY:
            _check(_libc.umount2(os.fsencode(target), UMOUNT_NOFOLLOW | MNT_DETACH), f"unmounting {target}")
        elif error.errno not in (errno.EINVAL, errno.ENOENT):  # no mount there, or no such directory
            raise


def _attach(image: int, label: str) -> tuple[int, str]:
    """A loop device over the image, as a descriptor and a path."""
    control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
    try:
        for _ in range(TRIES):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            path = f"/dev/loop{number}"
            device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, _configuration(image, label))
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device, path
    finally:
        os.close(control)
    raise OSError(errno.EBUSY, "no free loop device")


def _configuration(image: int, label: str) -> bytes:
    """struct loop_config with its struct loop_info64, from linux/loop.h."""
    info = struct.pack("=5Q4I64s64s32s2Q", 0, 0, 0, 0, 0, 0, 0, 0, AUTOCLEAR, label.encode()[:63], b"", b"", 0, 0)
    return struct.pack("=2I", image, 4096) + info + bytes(8 * 8)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
