"""Every image of ours is pinned whole: its base by digest, its packages and wheels by hash, its CUDA as data."""

import re
import tomllib
from pathlib import Path

import pytest

from domain.images import cuda_version, least_driver, version_text
from domain.levels import ImageKind, Level, runs_at

IMAGES = Path(__file__).parents[2] / "images"
FOLDERS = sorted(each.parent for each in IMAGES.glob("*/image.toml"))
PINNED = re.compile(r"ARG BASE=[a-z0-9./]+:[a-z0-9.-]+@sha256:[0-9a-f]{64}")
PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+_[^ /]+_(amd64|all)\.deb sha256:[0-9a-f]{64}")


def test_there_is_one_for_each_need() -> None:
    assert [each.name for each in FOLDERS] == ["cpu-base", "cuda-devel", "cuda-runtime", "pytorch"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
class TestEveryImage:
    def test_stands_on_a_base_that_is_pinned_by_digest(self, folder: Path) -> None:
        lines = (folder / "Dockerfile").read_text().splitlines()
        assert [line for line in lines if line.startswith("ARG")] == [next(filter(PINNED.fullmatch, lines))]
        assert {line.split()[1] for line in lines if line.startswith("FROM")} == {"${BASE}"}

    def test_is_nobody_s_root_and_carries_nothing_that_the_gate_would_take_out(self, folder: Path) -> None:
        lines = (folder / "Dockerfile").read_text().splitlines()
        assert [line for line in lines if line.startswith("USER")] == ["USER 64001:64001"]
        words = ("VOLUME", "ONBUILD", "HEALTHCHECK", "STOPSIGNAL", "ENTRYPOINT", "WORKDIR", "ADD")
        assert not [line for line in lines if line.startswith(words)]
        assert not re.search(r"^ENV .*\b(LD_|NVIDIA_|CUDA_VISIBLE)", "\n".join(lines), re.MULTILINE)

    def test_takes_every_wheel_by_hash(self, folder: Path) -> None:
        for lock in (folder / "requirements.lock", IMAGES / "pip.lock"):
            text = lock.read_text().replace("\\\n", " ")
            for line in filter(lambda line: line and not line.strip().startswith("#"), text.splitlines()):
                assert re.match(r"[a-z0-9][a-z0-9._-]*==[^ ]+ +--hash=sha256:[0-9a-f]{64}", line), line

    def test_says_its_cuda_and_the_driver_that_this_needs(self, folder: Path) -> None:
        about = tomllib.loads((folder / "image.toml").read_text())
        assert all(runs_at(ImageKind.ENGINE, Level(level)) for level in about["levels"])
        assert (IMAGES / f"packages.{about['base']}.lock").exists()
        if (cuda := cuda_version(about.get("cuda", ""))) is not None:
            least = least_driver(cuda)
            assert least is not None
            assert about["least_driver"] == version_text(least)


@pytest.mark.parametrize("lock", sorted(IMAGES.glob("packages.*.lock")), ids=lambda lock: lock.name)
def test_every_package_comes_by_hash(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    assert len(lines) > 50
    assert all(map(PACKAGE.fullmatch, lines))
