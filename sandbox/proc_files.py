"""Readers of the kernel's text files about one process: pure, one for each format."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

UNLIMITED = "unlimited"


@dataclass(frozen=True, slots=True)
class Status:
    """What /proc/PID/status says of a process's rights."""

    uids: tuple[int, ...]
    """Real, effective, saved, file system; as the reader's user namespace counts."""
    gids: tuple[int, ...]
    groups: tuple[int, ...]
    cap_inheritable: int
    cap_permitted: int
    cap_effective: int
    cap_bounding: int
    cap_ambient: int
    no_new_privs: bool
    seccomp_mode: int
    """0 none, 1 strict, 2 filter."""
    namespace_pids: tuple[int, ...]
    """Its process id in each pid namespace, the reader's first."""

    @property
    def capabilities(self) -> int:
        """Every capability that it has or could get."""
        return self.cap_inheritable | self.cap_permitted | self.cap_effective | self.cap_bounding | self.cap_ambient


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/PID/mountinfo."""

    root: str
    """The folder of the file system that is mounted here."""
    mount_point: str
    options: frozenset[str]
    """Of this mount: `ro`, `nosuid`, …"""
    fs_type: str
    source: str
    super_options: Mapping[str, str]
    """Of the file system: `size`, `nr_inodes`, …; a flag has an empty value."""


@dataclass(frozen=True, slots=True)
class CgroupPath:
    """One line of /proc/PID/cgroup."""

    controllers: frozenset[str]
    """Empty for the unified hierarchy (v2)."""
    path: str


def parse_status(text: str) -> Status:
    """Read /proc/PID/status."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def numbers(name: str) -> tuple[int, ...]:
        return tuple(int(word) for word in fields.get(name, "").split())

    def mask(name: str) -> int:
        return int(fields.get(name, "0"), 16)

    return Status(
        uids=numbers("Uid"),
        gids=numbers("Gid"),
        groups=numbers("Groups"),
        cap_inheritable=mask("CapInh"),
        cap_permitted=mask("CapPrm"),
        cap_effective=mask("CapEff"),
        cap_bounding=mask("CapBnd"),
        cap_ambient=mask("CapAmb"),
        no_new_privs=numbers("NoNewPrivs") == (1,),
        seccomp_mode=(numbers("Seccomp") or (0,))[0],
        namespace_pids=numbers("NSpid"),
    )


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Read /proc/PID/mountinfo, in the order of mounting: the last one at a path is the one in sight."""
    return tuple(_mount(line) for line in text.splitlines() if " - " in line)


def mount_at(mounts: tuple[Mount, ...], path: str) -> Mount | None:
    """The mount in sight exactly at `path`; None if `path` is no mount point."""
    return next((mount for mount in reversed(mounts) if mount.mount_point == path), None)


def parse_cgroup(text: str) -> tuple[CgroupPath, ...]:
    """Read /proc/PID/cgroup."""
    rows = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return tuple(CgroupPath(frozenset(name for name in names.split(",") if name), path) for _, names, path in rows)


def parse_net_devices(text: str) -> tuple[str, ...]:
    """The names of the network devices in /proc/PID/net/dev, two heading lines skipped."""
    return tuple(line.split(":", 1)[0].strip() for line in text.splitlines()[2:] if ":" in line)


def parse_limits(text: str) -> Mapping[str, tuple[int | None, int | None]]:
    """Soft and hard limit by the name in /proc/PID/limits, such as `Max core file size`; None is unlimited."""
    return MappingProxyType(dict(filter(None, map(_limit, text.splitlines()[1:]))))


def _mount(line: str) -> Mount:
    left, right = line.split(" - ", 1)
    _, _, _, root, point, options = left.split(" ")[:6]
    fs_type, source, super_options = [*right.split(" ", 2), "", ""][:3]
    return Mount(
        root=_plain(root),
        mount_point=_plain(point),
        options=frozenset(options.split(",")),
        fs_type=fs_type,
        source=_plain(source),
        super_options=MappingProxyType(dict(_pair(word) for word in super_options.split(",") if word)),
    )


def _pair(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _plain(path: str) -> str:
    """Undo the kernel's octal escapes of space, tab, newline and backslash."""
    if "\\" not in path:
        return path
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), path)


def _limit(line: str) -> tuple[str, tuple[int | None, int | None]] | None:
    match = re.match(r"(.+?)\s{2,}(\d+|unlimited)\s+(\d+|unlimited)", line)
    if match is None:
        return None
    name, soft, hard = match.groups()
    return name, (_bound(soft), _bound(hard))


def _bound(word: str) -> int | None:
    return None if word == UNLIMITED else int(word)
