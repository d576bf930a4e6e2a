"""A host that forbids user namespaces names the one command that helps."""

from pathlib import Path

import pytest

from sandbox.user_namespaces import what_forbids


@pytest.mark.parametrize(
    ("file", "value", "command"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1\n", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("kernel/unprivileged_userns_clone", "0\n", "kernel.unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0\n", "user.max_user_namespaces=15000"),
    ],
)
def test_each_known_setting_is_named_with_its_cure(tmp_path: Path, file: str, value: str, command: str) -> None:
    place = tmp_path / "proc/sys" / file
    place.parent.mkdir(parents=True)
    place.write_text(value)
    assert command in what_forbids(tmp_path)
    place.write_text("12345\n" if "max" in file else str(1 - int(value)))
    assert what_forbids(tmp_path) == ""


def test_a_host_without_these_settings_forbids_nothing(tmp_path: Path) -> None:
    assert what_forbids(tmp_path) == ""
