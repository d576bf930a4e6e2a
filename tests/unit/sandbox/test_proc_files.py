"""The kernel's text files about a process, as they really look."""

import pytest

from sandbox.proc_files import mount_at, parse_cgroup, parse_limits, parse_mountinfo, parse_net_devices, parse_status

STATUS = """Name:\tsh
Umask:\t0022
Pid:\t27755
Uid:\t64002\t64002\t64002\t64002
Gid:\t64002\t64002\t64002\t64002
Groups:\t \nNSpid:\t27755\t2
CapInh:\t0000000000000000
CapPrm:\t0000000000000000
CapEff:\t0000000000000000
CapBnd:\t000001fffeffffff
CapAmb:\t0000000000000000
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""
MOUNTS = """97 69 0:41 /newroot / ro,nosuid,nodev,relatime - tmpfs tmpfs rw,uid=64002,gid=64002
98 97 254:0 /usr /usr ro,nosuid,nodev,relatime - ext4 /dev/vda rw,discard
99 97 0:45 / /with\\040space\\134 rw,nosuid - tmpfs tmpfs rw,size=980k,nr_inodes=64k
100 97 0:46 / /tmp rw master:1 - tmpfs first rw
101 97 0:47 / /tmp ro shared:7 propagate_from:2 - tmpfs second rw
a line that is none
"""
LIMITS = "\n".join(
    f"{name:<25} {soft:<20} {hard:<20} {unit:<10}"
    for name, soft, hard, unit in (
        ("Limit", "Soft Limit", "Hard Limit", "Units"),
        ("Max cpu time", "unlimited", "unlimited", "seconds"),
        ("Max core file size", "0", "0", "bytes"),
        ("Max processes", "32", "96365", "processes"),
    )
)


def test_a_status_tells_rights() -> None:
    status = parse_status(STATUS)
    assert status.uids == status.gids == (64002,) * 4
    assert status.groups == ()
    assert status.capabilities == status.cap_bounding == 0x1FFFEFFFFFF
    assert status.no_new_privs
    assert status.seccomp_mode == 2
    assert status.namespace_pids == (27755, 2)


def test_a_status_without_a_line_is_the_weaker_reading() -> None:
    status = parse_status("Name:\tx\n")
    assert not status.no_new_privs
    assert status.seccomp_mode == 0
    assert status.uids == ()


def test_mounts_are_read_with_their_escapes_and_options() -> None:
    mounts = parse_mountinfo(MOUNTS)
    assert [mount.mount_point for mount in mounts] == ["/", "/usr", "/with space\\", "/tmp", "/tmp"]
    assert mounts[0].root == "/newroot"
    assert mounts[1].source == "/dev/vda"
    assert mounts[2].super_options == {"rw": "", "size": "980k", "nr_inodes": "64k"}
    assert "nosuid" in mounts[2].options


def test_the_last_mount_at_a_place_is_the_one_in_sight() -> None:
    mounts = parse_mountinfo(MOUNTS)
    assert getattr(mount_at(mounts, "/tmp"), "source", "") == "second"
    assert mount_at(mounts, "/home") is None


@pytest.mark.parametrize(
    ("text", "controllers", "path"),
    [
        ("4:memory:/docker/abc", {"memory"}, "/docker/abc"),
        ("2:cpu,cpuacct:/a:b", {"cpu", "cpuacct"}, "/a:b"),
        ("0::/user.slice", set(), "/user.slice"),
    ],
)
def test_control_groups_of_both_versions_are_read(text: str, controllers: set[str], path: str) -> None:
    (row,) = parse_cgroup(text + "\n")
    assert (row.controllers, row.path) == (controllers, path)


def test_network_devices_are_read() -> None:
    text = "Inter-|   Receive\n face |bytes\n    lo: 0 0\n  eth0:12 0\n"
    assert parse_net_devices(text) == ("lo", "eth0")


def test_limits_are_read() -> None:
    limits = parse_limits(LIMITS)
    assert limits["Max cpu time"] == (None, None)
    assert limits["Max core file size"] == (0, 0)
    assert limits["Max processes"] == (32, 96365)
