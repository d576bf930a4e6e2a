"""What is concluded from an engine's words on itself and from the files of the host."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.engine_facts import EngineFacts, is_runc_fixed, is_static, warnings
from sandbox.hardening import HostBounds
from sandbox.job_user import PLENTY
from sandbox.local_image import busybox_layer

GOOD = EngineFacts(
    server_version="28.3.0",
    runtimes=frozenset({"runc"}),
    runc_version="1.3.3",
    remaps_users=True,
    user_offset=100_000,
    has_live_restore=True,
    bounds=HostBounds(2, 1024, has_cdi=False, uids=PLENTY),
)


@pytest.mark.parametrize(
    ("version", "is_fixed"),
    [
        ("1.1.5+ds1", False),
        ("1.1.99", False),
        ("1.2.7", False),
        ("1.2.8", True),
        ("1.2.10-0ubuntu1", True),
        ("1.3.2", False),
        ("1.3.3", True),
        ("1.4.0-rc.1", False),
        ("1.4.0", True),
        ("1.10.0", True),
        ("2.0.0", True),
        ("", False),
        ("1.4", False),
        ("unknown", False),
    ],
)
def test_which_runc_has_the_fixes(version: str, is_fixed: bool) -> None:
    assert is_runc_fixed(version) is is_fixed


def test_an_engine_as_it_should_be_is_not_complained_about() -> None:
    assert warnings(GOOD) == ()


@pytest.mark.parametrize(
    ("change", "help"),
    [
        ({"runc_version": "1.1.5"}, "trusted tenants only"),
        ({"runc_version": ""}, "of an unknown version"),
        ({"has_live_restore": False}, "live-restore"),
        ({"remaps_users": False}, "userns-remap"),
    ],
)
def test_each_lack_says_what_would_help(change: dict[str, object], help: str) -> None:
    (said,) = warnings(replace(GOOD, **change))  # type: ignore[arg-type]
    assert help in said


def test_a_program_with_a_loader_or_none_at_all_is_not_static(tmp_path: Path) -> None:
    (tmp_path / "script").write_bytes(b"#!/bin/sh\n")
    (tmp_path / "short").write_bytes(b"\x7fELF\x02\x01")
    assert not is_static(Path(sys.executable).resolve())
    assert not is_static(tmp_path / "script")
    assert not is_static(tmp_path / "short")


def test_an_image_s_layer_depends_on_its_files_alone(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"program")
    (tmp_path / "two").write_bytes(b"program")
    (tmp_path / "other").write_bytes(b"another")
    assert busybox_layer(tmp_path / "one") == busybox_layer(tmp_path / "two")
    assert busybox_layer(tmp_path / "one") != busybox_layer(tmp_path / "other")
