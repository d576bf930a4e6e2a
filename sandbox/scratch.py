"""Keeps /scratch and /out of the asked size: freshly formatted images, each mounted once and never used again.

An image's file has no name any more as soon as it is mounted. So unmounting it is all the cleaning there is: nothing
is deleted file by file, nothing of one tenant's can reach another, and a crash leaks nothing but a mount, by its name.
"""

import contextlib
import logging
import os
import re
import subprocess
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox.contract import SandboxFault
from sandbox.loop import mount_image, unmount
from sandbox.secret_mount import is_mount, mount_secrets

SMALLEST_BYTES: Final = 4 << 20
"""Below it, ext4 has no room for its own tables."""
STEP_BYTES: Final = 1 << 20
BYTES_PER_INODE: Final = 16 << 10
INODES_MAX: Final = 1 << 20
OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
SECRETS: Final = "secrets"
"""The name of the place that is no volume."""
SHAPES_MAX: Final = 8
"""Sizes of which spare images are kept; the one unused for longest goes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Volume:
    """One writable place of one sandbox."""

    name: str
    size_bytes: int
    may_execute: bool

    @property
    def image_bytes(self) -> int:
        """The image's own size: whole mebibytes. ext4's tables take their part of it."""
        return max(SMALLEST_BYTES, -(-self.size_bytes // STEP_BYTES) * STEP_BYTES)

    @property
    def inodes(self) -> int:
        return min(INODES_MAX, self.image_bytes // BYTES_PER_INODE)


class ScratchPool:
    """The images and mounts below one folder. Needs root."""

    def __init__(self, root: Path, spares: int = 2) -> None:
        """`spares` images are kept formatted of each size lately asked for."""
        self._spare_dir = root / "spare"
        self._mount_dir = root / "mounts"
        self._spares = spares
        self._sizes: list[int] = []
        self._lock = threading.Lock()
        self._refiller = ThreadPoolExecutor(1, thread_name_prefix="scratch")
        for folder in (root, self._spare_dir, self._mount_dir):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def provide(self, owner: str, volumes: tuple[Volume, ...], uid: int) -> dict[str, Path]:
        """Each volume of `owner`, by its name, mounted, its root directory the host's user `uid`'s.

        Those mounted already are the same ones.

        Raises:
            SandboxFault: it cannot be made or mounted.
        """
        places = {volume.name: self._folder(owner) / volume.name for volume in volumes}
        try:
            for volume in volumes:
                self._provide(places[volume.name], volume, uid)
        except (OSError, subprocess.SubprocessError) as error:
            raise SandboxFault(f"a volume of {owner} cannot be made: {error}") from error
        self._remember(volumes)
        return places

    def provide_secrets(self, owner: str, values: Mapping[str, bytes], uid: int) -> Path:
        """A read-only tmpfs with these values, of `owner`; released with the rest.

        Raises:
            SandboxFault: it cannot be made or mounted.
        """
        place = self.place_of_secrets(owner)
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            mount_secrets(place, values, uid, uid)
        except OSError as error:
            raise SandboxFault(f"the secrets of {owner} cannot be brought: {error.strerror}") from error
        return place

    def place_of_secrets(self, owner: str) -> Path:
        """Where the secrets of `owner` are mounted, if it has any."""
        return self._folder(owner) / SECRETS

    def places(self, owner: str) -> dict[str, Path]:
        """What is mounted for `owner`, by name."""
        folder = self._folder(owner)
        return {place.name: place for place in _entries(folder) if is_mount(place)}

    def release(self, owner: str) -> None:
        """Unmount all of `owner`; nothing there is nothing done.

        Raises:
            OSError: the kernel keeps a mount.
        """
        folder = self._folder(owner)
        for place in _entries(folder):
            if place.suffix == ".img":  # claimed by a process that died before the mount
                place.unlink(missing_ok=True)
                continue
            unmount(place)
            with contextlib.suppress(FileNotFoundError):
                place.rmdir()  # refuses if it is not empty: then something is still mounted or was never ours
        with contextlib.suppress(FileNotFoundError):
            folder.rmdir()

    def owners(self) -> tuple[str, ...]:
        """Everybody who has a folder here, whoever made it: what has no live attempt is a leak."""
        return tuple(sorted(folder.name for folder in _entries(self._mount_dir)))

    def refill_soon(self) -> None:
        """Format spare images in the background; called when no start is waiting."""
        with contextlib.suppress(RuntimeError):  # closed meanwhile
            self._refiller.submit(self._refill)

    def close(self) -> None:
        """Stop refilling. Mounts stay, as the sandboxes do."""
        self._refiller.shutdown(wait=True, cancel_futures=True)

    def _provide(self, place: Path, volume: Volume, uid: int) -> None:
        if not is_mount(place):
            self._mount(place, volume)
        if place.stat().st_uid == 0:  # not handed over yet
            with contextlib.suppress(FileNotFoundError):
                (place / "lost+found").rmdir()
            os.chown(place, uid, uid)

    def _mount(self, place: Path, volume: Volume) -> None:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        image = place.with_suffix(".img")
        image.unlink(missing_ok=True)
        if not self._claim_spare(volume, image):
            _format(image, volume)
        fd = os.open(image, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            mount_image(fd, image.name, place, volume.may_execute)
        finally:
            os.close(fd)
            image.unlink()

    def _claim_spare(self, volume: Volume, image: Path) -> bool:
        """Move a spare image to `image`: the rename is what makes it ours alone."""
        for spare in _entries(self._spare_dir):
            if spare.name.startswith(f"{volume.image_bytes}-") and spare.suffix == ".img":
                try:
                    spare.rename(image)
                except FileNotFoundError:
                    continue  # another took it
                return True
        return False

    def _remember(self, volumes: tuple[Volume, ...]) -> None:
        with self._lock:
            for size in {volume.image_bytes for volume in volumes}:
                if size in self._sizes:
                    self._sizes.remove(size)
                self._sizes.append(size)
            del self._sizes[:-SHAPES_MAX]

    def _refill(self) -> None:
        with self._lock:
            sizes = tuple(self._sizes)
        try:
            for spare in _entries(self._spare_dir):
                if int(spare.name.partition("-")[0]) not in sizes:
                    spare.unlink(missing_ok=True)
            for size in sizes:
                for _ in range(self._spares - len(list(self._spare_dir.glob(f"{size}-*.img")))):
                    draft = self._spare_dir / f"{size}-{uuid.uuid4().hex}.draft"
                    _format(draft, Volume("", size, may_execute=False))
                    draft.rename(draft.with_suffix(".img"))
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("no spare volumes: %s", error)  # each start then formats its own

    def _folder(self, owner: str) -> Path:
        if not OWNER.fullmatch(owner):
            raise SandboxFault("a sandbox's name holds what a folder's may not")
        return self._mount_dir / owner


def _format(image: Path, volume: Volume) -> None:
    """Write an empty ext4 without a journal: what it holds need not survive the host's crash."""
    fd = os.open(image, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, volume.image_bytes)
    finally:
        os.close(fd)
    options = ["-m", "0", "-b", "4096", "-N", str(volume.inodes), "-O", "^has_journal,^resize_inode"]
    command = ["mkfs.ext4", "-q", "-F", *options, "-E", "lazy_itable_init=1,nodiscard", str(image)]
    made = subprocess.run(command, capture_output=True, timeout=60, check=False)
    if made.returncode != 0:
        image.unlink()
        raise OSError(f"mkfs.ext4 failed: {made.stderr.decode(errors='replace').strip()}")


def _entries(folder: Path) -> tuple[Path, ...]:
    try:
        return tuple(folder.iterdir())
    except FileNotFoundError:
        return ()
