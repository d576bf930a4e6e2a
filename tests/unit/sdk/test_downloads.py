"""An artifact's name never leads outside, and a wrong byte never stays."""

import hashlib
from pathlib import Path

import pytest
from corral.downloads import Incoming, target_of
from corral.errors import UnsafeDownload
from corral.jobs import ArtifactView
from hypothesis import given
from hypothesis import strategies as st

UNSAFE = ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a/", "..", "a\0b"]


def an_artifact(name, content):
    digest = hashlib.sha256(content).hexdigest()
    return ArtifactView(name=name, size_bytes=len(content), sha256=f"sha256:{digest}", attempt_id="att_x")


@pytest.mark.parametrize("name", UNSAFE)
def test_names_that_lead_elsewhere_are_refused(name, tmp_path):
    with pytest.raises(UnsafeDownload):
        target_of(tmp_path, name)


@given(st.text(alphabet="ab./\\\0\n~", max_size=12))
def test_whatever_the_name_it_lies_below_or_is_refused(name):
    directory = Path("/nowhere/at/all")
    try:
        target = target_of(directory, name)
    except UnsafeDownload:
        return
    assert target.resolve().is_relative_to(directory)
    assert target != directory


def test_a_link_inside_is_not_followed_out(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    with pytest.raises(UnsafeDownload, match="outside"):
        target_of(tmp_path / "in", "link/x")


def test_a_link_in_its_place_is_replaced_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").symlink_to(victim)
    with Incoming(an_artifact("a", b"new"), tmp_path / "in") as incoming:
        incoming.write(b"new")
    assert (victim.read_text(), (tmp_path / "in" / "a").read_text()) == ("kept", "new")


def test_it_takes_its_place_whole(tmp_path):
    with Incoming(an_artifact("deep/down/a", b"hello"), tmp_path) as incoming:
        incoming.write(b"hel")
        incoming.write(b"lo")
        assert not incoming.target.exists()
    assert (tmp_path / "deep/down/a").read_bytes() == b"hello"


def test_other_bytes_than_recorded_leave_nothing(tmp_path):
    with pytest.raises(UnsafeDownload, match="SHA-256"), Incoming(an_artifact("a", b"hello"), tmp_path) as incoming:
        incoming.write(b"hullo")
    assert list(tmp_path.iterdir()) == []


def test_a_broken_download_leaves_nothing(tmp_path):
    with pytest.raises(ConnectionError), Incoming(an_artifact("a", b"hello"), tmp_path):
        raise ConnectionError
    assert list(tmp_path.iterdir()) == []
