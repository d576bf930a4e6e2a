"""Volumes of a fixed size: bounded in bytes and inodes, never seen twice, gone with their mount."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import services

from sandbox.contract import SandboxFault
from sandbox.loop import unmount
from sandbox.scratch import ScratchPool, Volume
from sandbox.secret_mount import is_mount

MIB = 1 << 20
OUT = Volume("out", 8 * MIB, may_execute=False)
SCRATCH = Volume("scratch", 16 * MIB, may_execute=True)
UID = 64001


def backing_files(root: Path) -> list[str]:
    """The loop devices that still hold an image of this pool's."""
    found = []
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            text = file.read_text()
        except OSError:
            continue  # it was let go of meanwhile
        if str(root) in text:
            found.append(text.strip())
    return found


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ScratchPool]:
    services.need_program("mkfs.ext4")
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        services.missing("mounting images needs root and loop devices")
    pool = ScratchPool(tmp_path)
    yield pool
    for owner in pool.owners():
        pool.release(owner)
    pool.close()
    assert backing_files(tmp_path) == []
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def options(place: Path) -> set[str]:
    (line,) = (line for line in Path("/proc/self/mountinfo").read_text().splitlines() if f" {place} " in line)
    return set(line.split(" ")[5].split(","))


def test_each_volume_is_mounted_with_what_it_may_hold(pool: ScratchPool) -> None:
    places = pool.provide("a", (OUT, SCRATCH), UID)
    assert {"nosuid", "nodev", "noexec"} <= options(places["out"])
    assert {"nosuid", "nodev"} <= options(places["scratch"])
    assert "noexec" not in options(places["scratch"])
    for place in places.values():
        assert list(place.iterdir()) == []
        assert (place.stat().st_uid, place.stat().st_gid, place.stat().st_mode & 0o777) == (UID, UID, 0o755)


def test_asking_again_gives_the_same_volumes(pool: ScratchPool) -> None:
    places = pool.provide("a", (OUT,), UID)
    (places["out"] / "kept").write_bytes(b"x")
    assert pool.provide("a", (OUT,), UID) == places
    assert (places["out"] / "kept").exists()


def test_the_size_is_a_wall(pool: ScratchPool) -> None:
    place = pool.provide("a", (OUT,), UID)["out"]
    with pytest.raises(OSError, match="No space left") as refused:
        (place / "big").write_bytes(bytes(9 * MIB))
    assert refused.value.errno == errno.ENOSPC


def make_files(place: Path, count: int) -> None:
    for number in range(count):
        (place / str(number)).touch()


def test_the_number_of_files_is_a_wall(pool: ScratchPool) -> None:
    place = pool.provide("a", (OUT,), UID)["out"]
    with pytest.raises(OSError, match="No space left"):
        make_files(place, OUT.inodes + 1)


def test_two_owners_never_share(pool: ScratchPool) -> None:
    first = pool.provide("a", (OUT,), UID)["out"]
    (first / "secret").write_bytes(b"of the first")
    second = pool.provide("b", (OUT,), UID)["out"]
    assert list(second.iterdir()) == []
    assert first.stat().st_dev != second.stat().st_dev


def test_a_used_image_is_never_given_again(pool: ScratchPool, tmp_path: Path) -> None:
    for number in range(5):
        owner = f"owner{number}"
        place = pool.provide(owner, (OUT,), UID)["out"]
        assert list(place.iterdir()) == []
        (place / "secret").write_bytes(b"secret" * 1000)
        pool.refill_soon()
        pool.release(owner)
    pool.close()  # waits for the refilling
    spares = list((tmp_path / "spare").iterdir())
    assert spares
    assert all(b"secretsecret" not in spare.read_bytes() for spare in spares)


def test_spares_are_used_and_made_again(pool: ScratchPool, tmp_path: Path) -> None:
    pool.provide("a", (OUT,), UID)
    pool.refill_soon()
    pool.close()
    assert len(list((tmp_path / "spare").iterdir())) == 2
    another = ScratchPool(tmp_path)
    another.provide("b", (OUT,), UID)
    assert len(list((tmp_path / "spare").iterdir())) == 1
    another.close()


def test_releasing_leaves_nothing_and_may_be_repeated(pool: ScratchPool, tmp_path: Path) -> None:
    pool.provide("a", (OUT, SCRATCH), UID)
    assert pool.owners() == ("a",)
    pool.release("a")
    pool.release("a")
    assert pool.owners() == ()
    assert backing_files(tmp_path) == []


def test_a_volume_that_somebody_still_reads_goes_with_its_reader(pool: ScratchPool, tmp_path: Path) -> None:
    place = pool.provide("a", (OUT,), UID)["out"]
    reader = os.open(place, os.O_RDONLY)
    pool.release("a")
    assert pool.owners() == ()
    with os.scandir(reader) as entries:
        assert list(entries) == []
    os.close(reader)
    assert backing_files(tmp_path) == []


def test_what_a_dead_process_left_is_found_and_released(pool: ScratchPool, tmp_path: Path) -> None:
    """The next start of the agent knows nothing but the folder."""
    pool.provide("a", (OUT,), UID)
    (tmp_path / "mounts/b").mkdir()
    (tmp_path / "mounts/b/out.img").write_bytes(b"claimed and never mounted")
    (tmp_path / "mounts/b/out").mkdir()
    fresh = ScratchPool(tmp_path)
    assert fresh.owners() == ("a", "b")
    for owner in fresh.owners():
        fresh.release(owner)
    assert fresh.owners() == ()
    fresh.close()


def test_nothing_is_deleted_that_is_not_mounted(pool: ScratchPool, tmp_path: Path) -> None:
    (tmp_path / "mounts/a/out").mkdir(parents=True)
    (tmp_path / "mounts/a/out/somebody's").write_bytes(b"x")
    with pytest.raises(OSError, match="not empty"):
        pool.release("a")
    (tmp_path / "mounts/a/out/somebody's").unlink()


@pytest.mark.parametrize("owner", ["", "..", "a/b", "../x", "a\n", "-", "x" * 200])
def test_a_name_that_is_no_folder_s_is_refused(pool: ScratchPool, owner: str) -> None:
    with pytest.raises(SandboxFault):
        pool.provide(owner, (OUT,), UID)


def test_a_tiny_volume_is_as_small_as_ext4_can_be(pool: ScratchPool) -> None:
    assert pool.provide("a", (Volume("out", 1, may_execute=False),), UID)["out"].is_dir()


def test_unmounting_what_is_no_mount_does_nothing(tmp_path: Path) -> None:
    unmount(tmp_path / "nothing")
    assert not is_mount(tmp_path / "nothing")
