"""Verifies a bubblewrap sandbox's waiting gate: what the host sees, beside the order."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sandbox import gate
from sandbox.bubblewrap_plan import Ground, environment
from sandbox.cgroup_groups import NO_GROUP, Group
from sandbox.comparison import Comparison
from sandbox.contract import LaunchOrder
from sandbox.hardening import NOFILE, OOM_SCORE_ADJ, TMP_INODES, shm_bytes, tmp_bytes
from sandbox.host_gpus import nodes_of
from sandbox.observe import PROC, Observation
from sandbox.proc_files import Mount
from sandbox.secret_files import compare_secrets
from sandbox.wall_facts import (
    TmpfsRule,
    compare_devices,
    compare_namespaces,
    compare_no_network,
    compare_process,
    compare_read_only,
    compare_rlimit,
    compare_tmpfs,
)

DEVICES: Final = frozenset({"full", "null", "random", "tty", "urandom", "zero"})
ENVIRONMENT_ADDED: Final = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
"""What a shell adds on its own."""
VOLUME_INODES: Final = 65_536
MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8


def tmpfs_rules(order: LaunchOrder) -> tuple[TmpfsRule, ...]:
    """Every place that a job may write to."""
    plain = frozenset({"nosuid", "nodev"})
    rules = [
        TmpfsRule("/tmp", tmp_bytes(order), plain, TMP_INODES),  # noqa: S108
        TmpfsRule("/dev/shm", shm_bytes(order), plain, TMP_INODES),  # noqa: S108
        TmpfsRule("/out", max(order.output_bytes, 4096), plain | {"noexec"}, VOLUME_INODES),
    ]
    if order.scratch_bytes:
        rules.append(TmpfsRule("/scratch", max(order.scratch_bytes, 4096), plain, VOLUME_INODES))
    return tuple(rules)


def remounts(order: LaunchOrder) -> list[tuple[str, int, str]]:
    """What bubblewrap leaves to be set on them: path, mount flags, options."""
    flags = MS_NOSUID | MS_NODEV
    return [
        (rule.path, flags | (MS_NOEXEC if "noexec" in rule.options else 0), f"nr_inodes={rule.inodes}")
        for rule in tmpfs_rules(order)
    ]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a sandbox must be: the order, on this ground, with the limits that the host let us set."""

    order: LaunchOrder
    ground: Ground
    group: Group
    processes_limit: int
    """The gate's own; 0 for none."""


def environment_of(pid: int) -> dict[str, str]:
    """The environment of process `pid`, as it began."""
    lines = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return dict(line.decode(errors="surrogateescape").split("=", 1) for line in lines if b"=" in line)


def compare(comparison: Comparison, asked: Asked, seen: Observation, env: Mapping[str, str]) -> None:
    """All that is seen of the gate, and its environment, beside what was asked."""
    order, ground = asked.order, asked.ground
    compare_process(comparison, seen, ground.uid, ground.gid)
    compare_namespaces(comparison, seen, ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"))
    compare_no_network(comparison, seen)
    _compare_places(comparison, order, ground, seen)
    compare_secrets(comparison, order, seen, ground.uid)
    gpus = frozenset(nodes_of(order.devices))
    compare_devices(comparison, seen, DEVICES | gpus)
    comparison.exact("gpu_nodes", gpus, frozenset(name for name in seen.devices if name.startswith("nvidia")))
    compare_rlimit(comparison, seen, "Max core file size", 0)
    compare_rlimit(comparison, seen, "Max open files", NOFILE)
    comparison.exact("oom_score_adj", OOM_SCORE_ADJ, seen.oom_score_adj)
    _compare_limits(comparison, asked, seen)
    _compare_environment(comparison, order, ground, env)


def _compare_places(comparison: Comparison, order: LaunchOrder, ground: Ground, seen: Observation) -> None:
    """The root and all that comes from the host is read-only, what hides something is there, the rest is bounded."""
    rules = tmpfs_rules(order)
    read_only = ["/", "/dev", gate.INSIDE, "/usr", "/proc/1", *ground.masked, *ground.host_files]
    read_only += [f"/{name}" for name, target in ground.host_links.items() if target is None]
    read_only += ["/in"] if order.input_dir is not None else []
    read_only += [str(ground.python)] if ground.python is not None else []
    for path in read_only:
        compare_read_only(comparison, seen, path)
    for rule in rules:
        compare_tmpfs(comparison, seen, rule)
    writable = {mount.mount_point for mount in seen.mounts if _is_writable(mount, seen.mounts)}
    writable = {path for path in writable if not path.startswith(("/dev/", "/proc")) or path == "/dev/shm"}  # noqa: S108
    comparison.exact("writable_places", frozenset(rule.path for rule in rules), frozenset(writable))


def _is_writable(mount: Mount, mounts: Collection[Mount]) -> bool:
    """Whether it is in sight (no later mount lies at its place) and not read-only."""
    last = [other for other in mounts if other.mount_point == mount.mount_point][-1]
    return last is mount and "ro" not in mount.options


def _compare_limits(comparison: Comparison, asked: Asked, seen: Observation) -> None:
    """Each limit by control group that is ours to set; else said to be missing, or held by the gate's own limit."""
    order, group = asked.order, asked.group
    limits = seen.limits
    if "memory" in group.folders:
        comparison.at_most("memory_bytes", order.memory_bytes, limits.memory_bytes)
        if limits.memory_and_swap_bytes is not None:
            comparison.at_most("memory_and_swap_bytes", order.memory_bytes, limits.memory_and_swap_bytes)
        else:
            comparison.not_in_force("memory_and_swap_bytes", order.memory_bytes, "this kernel does not count swap")
    else:
        comparison.not_in_force("memory_bytes", order.memory_bytes, NO_GROUP)
    if "cpu" in group.folders:
        comparison.at_most("cpus_milli", order.cpus_milli, limits.cpus_milli)
    else:
        comparison.not_in_force("cpus_milli", order.cpus_milli, NO_GROUP)
    if "pids" in group.folders:
        comparison.at_most("pids", order.pids_limit, limits.pids)
    elif asked.processes_limit:
        compare_rlimit(comparison, seen, "Max processes", order.pids_limit)
    else:
        comparison.not_in_force("pids", order.pids_limit, NO_GROUP)


def _compare_environment(comparison: Comparison, order: LaunchOrder, ground: Ground, env: Mapping[str, str]) -> None:
    """The gate's environment is what was given and nothing of the agent's; values are not shown, they may be secret."""
    found = {name: value for name, value in env.items() if name not in ENVIRONMENT_ADDED or name in order.env}
    given = environment(order, ground)
    strangers = sorted(name for name in found.keys() | given.keys() if found.get(name) != given.get(name))
    words = f"differs in {', '.join(strangers)}" if strangers else "as given"
    comparison.holds("environment", "as given", not strangers, words)
