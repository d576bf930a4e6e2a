"""The comparisons that every backend makes alike, on what was observed at the gate."""

from dataclasses import dataclass

from sandbox.comparison import Comparison
from sandbox.observe import Observation

CPU_PERIOD_SLACK_MILLI = 5
"""A quota is counted in microseconds of a period, so thousandths of a processor may round."""


@dataclass(frozen=True, slots=True)
class TmpfsRule:
    """A size-limited file system that the job may write to."""

    path: str
    size_bytes: int
    options: frozenset[str] = frozenset({"nosuid", "nodev"})
    inodes: int | None = None
    """None: not compared."""


def compare_process(comparison: Comparison, seen: Observation, uid: int, gid: int) -> None:
    """Who the gate runs as and what rights it has: no capability, none to gain, a filter on system calls."""
    status = seen.status
    comparison.exact("uid", (uid,) * 4, status.uids)
    comparison.exact("gid", (gid,) * 4, status.gids)
    comparison.holds("groups", "none but its own", set(status.groups) <= {gid}, _words(status.groups))
    comparison.exact("capabilities", "0x0", hex(status.capabilities))
    comparison.exact("no_new_privileges", True, status.no_new_privs)
    comparison.holds(
        "seccomp", "filter", status.seccomp_mode == 2, {0: "none", 1: "strict"}.get(status.seccomp_mode, "filter")
    )


def compare_namespaces(comparison: Comparison, seen: Observation, names: tuple[str, ...]) -> None:
    """Each of these namespaces must be its own, not the host's."""
    for name in names:
        found = "own" if seen.is_apart(name) else "the host's"
        comparison.exact(f"namespace_{name}", "own", found)


def compare_no_network(comparison: Comparison, seen: Observation) -> None:
    """Nothing but loopback in its network namespace."""
    comparison.holds("network_devices", "lo", set(seen.net_devices) <= {"lo"}, _words(seen.net_devices))


def compare_read_only(comparison: Comparison, seen: Observation, path: str) -> None:
    """`path` is a mount that cannot be written to."""
    mount = seen.mount(path)
    found = "not mounted" if mount is None else "read-only" if "ro" in mount.options else "writable"
    comparison.exact(f"mount {path}", "read-only", found)


def compare_tmpfs(comparison: Comparison, seen: Observation, rule: TmpfsRule) -> None:
    """`rule.path` is a tmpfs with these options, no larger than asked (to the next page)."""
    mount = seen.mount(rule.path)
    comparison.exact(f"mount {rule.path}", "tmpfs", "not mounted" if mount is None else mount.fs_type)
    if mount is None:
        return
    missing = rule.options - mount.options
    comparison.holds(f"options {rule.path}", _words(rule.options), not missing, _words(rule.options & mount.options))
    size = tmpfs_bytes(mount.super_options.get("size", ""))
    comparison.at_most(f"size {rule.path}", _whole_pages(rule.size_bytes), size)
    if rule.inodes is not None:
        comparison.at_most(f"inodes {rule.path}", rule.inodes, tmpfs_inodes(mount.super_options.get("nr_inodes", "")))


def tmpfs_bytes(text: str) -> int | None:
    """The size as mountinfo writes it (`980k`); None if none stands there."""
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    if not text or not text.rstrip("kmg").isdigit():
        return None
    return int(text.rstrip("kmg")) * units.get(text[-1], 1)


def tmpfs_inodes(text: str) -> int | None:
    """The number of inodes as mountinfo writes it (`64k`); None if none stands there."""
    return tmpfs_bytes(text)


def compare_limits(comparison: Comparison, seen: Observation, *, memory_bytes: int, pids: int, cpus_milli: int) -> None:
    """The cgroup limits in force on the gate; for a host whose cgroups must carry them."""
    limits = seen.limits
    comparison.at_most("memory_bytes", memory_bytes, limits.memory_bytes)
    comparison.at_most("memory_and_swap_bytes", memory_bytes, limits.memory_and_swap_bytes)
    comparison.at_most("pids", pids, limits.pids)
    comparison.at_most("cpus_milli", cpus_milli + CPU_PERIOD_SLACK_MILLI, limits.cpus_milli)


def compare_devices(comparison: Comparison, seen: Observation, allowed: frozenset[str]) -> None:
    """No device node but these is anywhere in its /dev."""
    strangers = set(seen.devices) - allowed
    comparison.holds("device_nodes", _words(allowed), not strangers, _words(seen.devices))


def compare_rlimit(comparison: Comparison, seen: Observation, name: str, most: int) -> None:
    """The hard limit `name`, as /proc/PID/limits calls it, is no greater than `most`."""
    _, hard = seen.rlimits.get(name, (None, None))
    comparison.at_most(f"rlimit {name}", most, hard)


def _whole_pages(size_bytes: int) -> int:
    return -(-max(size_bytes, 1) // 4096) * 4096


def _words(values: object) -> str:
    return ",".join(sorted(map(str, values))) or "none"  # type: ignore[call-overload]
