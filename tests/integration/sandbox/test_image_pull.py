"""An image that is pinned by a registry's digest is brought to the node, from a real registry on this machine."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import engines
import pytest
from registries import a_registry, pushed_image

from domain.ids import NodeId
from sandbox.contract import ImageMissing
from sandbox.engine import DockerSandbox
from sandbox.image_store import DAY_US, JUST_USED_US, ImageStore, KeepRule

NODE = NodeId(f"nod_pull_{os.getpid()}")
KEEP_ALL = KeepRule(14 * DAY_US, 100)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_registry(tmp_path_factory.mktemp("registry")) as address:
        yield address


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DockerSandbox]:
    engines.need_engine()
    opened = DockerSandbox(tmp_path / "box", NODE)
    yield opened
    opened.close()


@pytest.fixture
def pushed(registry: str, box: DockerSandbox) -> Iterator[str]:
    """The pinned reference of an image that the registry has and the engine has not."""
    reference = pushed_image(registry, "pulled", {"etc/big": os.urandom(3 << 20)})
    yield reference
    box.engine.remove_image(reference)


class Clock:
    """A wall clock that is set."""

    def __init__(self) -> None:
        self.us = 1_000 * DAY_US

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(box: DockerSandbox, tmp_path: Path, clock: Clock) -> ImageStore:
    return ImageStore(box.engine, tmp_path / "images.json", clock)


def test_it_is_pulled_by_its_digest_and_runs(box: DockerSandbox, pushed: str, tmp_path: Path) -> None:
    order = engines.an_order(tmp_path, pushed, "echo", "pulled", node_id=NODE)
    sandbox_id = box.create(order)
    try:
        box.verify(sandbox_id, order)
        box.start(sandbox_id, order)
        end = box.wait(sandbox_id, order, 30)
        assert end is not None
        assert end.exit_code == 0
    finally:
        box.remove(sandbox_id, order)


def test_a_digest_that_the_registry_does_not_have_is_said_to_be_missing(
    box: DockerSandbox, pushed: str, tmp_path: Path
) -> None:
    other = pushed.rpartition("@")[0] + "@sha256:" + "0" * 64
    with pytest.raises(ImageMissing, match="cannot be pulled"):
        box.create(engines.an_order(tmp_path, other, "true", node_id=NODE))
    assert box.images.pulls() == {}
    assert box.images.notes() == {}


def test_fifty_who_want_one_image_share_one_pull(store: ImageStore, pushed: str, registry: str) -> None:
    with ThreadPoolExecutor(50) as pool:
        pulls = list(pool.map(lambda _: store.ensure(pushed), range(50)))
        list(pool.map(lambda _: store.present(pushed), range(50)))
    assert len({id(pull) for pull in pulls if pull is not None}) == 1
    [pull] = {pull for pull in pulls if pull is not None}
    end = pull.progress()
    assert end.layers_done == end.layers == 1
    assert end.bytes_done == end.bytes_total > 3 << 20
    assert store.ensure(pushed) is None


def test_who_waits_for_a_pull_that_fails_is_told_and_the_next_tries_again(store: ImageStore, pushed: str) -> None:
    gone = "127.0.0.1:9/x@sha256:" + "0" * 64
    pulls = [pull for pull in (store.ensure(gone) for _ in range(2)) if pull is not None]
    for pull in pulls:
        with pytest.raises(ImageMissing, match="cannot be pulled"):
            pull.result()
    again = store.ensure(gone)
    assert again is not None
    assert again not in pulls
    assert again.wait(30)


def test_what_was_pulled_goes_when_nobody_has_used_it_for_long_and_comes_back(
    store: ImageStore, pushed: str, clock: Clock, box: DockerSandbox
) -> None:
    store.present(pushed)
    assert store.notes()[pushed].size_bytes > 3 << 20
    assert store.collect((), KEEP_ALL) == []
    clock.us += 14 * DAY_US
    assert store.collect([pushed], KEEP_ALL) == []
    assert store.collect((), KEEP_ALL) == [pushed]
    assert store.notes() == {}
    with pytest.raises(ImageMissing):
        box.engine.image(pushed)
    assert store.ensure(pushed) is not None
    store.present(pushed)


def test_a_full_disk_takes_the_least_recently_used_and_never_what_was_used_just_now(
    store: ImageStore, pushed: str, clock: Clock
) -> None:
    store.present(pushed)
    assert store.collect((), KeepRule(14 * DAY_US, 0)) == []
    clock.us += JUST_USED_US
    store.ensure(pushed)
    clock.us += JUST_USED_US - 1
    assert store.collect((), KeepRule(14 * DAY_US, 0)) == []
    clock.us += 1
    assert store.collect((), KeepRule(14 * DAY_US, 0)) == [pushed]


def test_an_image_that_a_container_holds_stays(
    store: ImageStore, pushed: str, clock: Clock, box: DockerSandbox, tmp_path: Path
) -> None:
    store.present(pushed)
    order = engines.an_order(tmp_path, pushed, "sleep", "60", node_id=NODE)
    sandbox_id = box.create(order)
    try:
        clock.us += 30 * DAY_US
        assert store.collect((), KEEP_ALL) == []
        assert pushed in store.notes()
    finally:
        box.remove(sandbox_id, order)


def test_what_others_brought_is_never_removed(
    store: ImageStore, pushed: str, clock: Clock, box: DockerSandbox, tmp_path: Path
) -> None:
    box.engine.pull(pushed)
    assert store.ensure(pushed) is None
    clock.us += 30 * DAY_US
    assert store.collect((), KeepRule(DAY_US, 0)) == []
    box.engine.image(pushed)


def test_what_was_pulled_is_known_after_a_restart(
    store: ImageStore, pushed: str, clock: Clock, box: DockerSandbox, tmp_path: Path
) -> None:
    store.present(pushed)
    again = ImageStore(box.engine, tmp_path / "images.json", clock)
    assert again.notes() == store.notes()
    clock.us += 30 * DAY_US
    assert again.collect((), KEEP_ALL) == [pushed]
    (tmp_path / "images.json").write_text("[half a note")
    assert ImageStore(box.engine, tmp_path / "images.json", clock).notes() == {}
