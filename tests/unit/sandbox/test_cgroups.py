"""Limits are read from hierarchies of both versions, and the tightest along the path counts."""

from pathlib import Path

from sandbox.cgroups import Limits, limits_of

PID = 42


def a_proc(tmp_path: Path, mounts: str, cgroup: str) -> Path:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / str(PID)).mkdir()
    (proc / "self/mountinfo").write_text(mounts)
    (proc / str(PID) / "cgroup").write_text(cgroup)
    return proc


def a_folder(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return folder


def test_version_1(tmp_path: Path) -> None:
    for name in ("memory", "pids", "cpu"):
        a_folder(tmp_path / name)
    a_folder(tmp_path / "memory", memory__limit_in_bytes="9223372036854771712\n")
    a_folder(tmp_path / "memory/a/b", memory__limit_in_bytes="1000\n", memory__memsw__limit_in_bytes="1000\n")
    a_folder(tmp_path / "memory/a", memory__limit_in_bytes="500\n")
    a_folder(tmp_path / "pids/a/b", pids__max="12\n")
    a_folder(tmp_path / "cpu/a/b", **{"cpu.cfs_quota_us": "50000", "cpu.cfs_period_us": "100000"})
    mounts = "".join(f"1 0 0:1 / {tmp_path}/{name} rw - cgroup c rw,{name}\n" for name in ("memory", "pids", "cpu"))
    proc = a_proc(tmp_path, mounts, "4:memory:/a/b\n3:pids:/a/b\n2:cpu,cpuacct:/a/b\n")
    assert limits_of(PID, proc) == Limits(500, 1000, 12, 500)


def test_version_2(tmp_path: Path) -> None:
    a_folder(tmp_path / "all", cgroup__controllers="cpu memory pids\n")
    a_folder(
        tmp_path / "all/a", memory__max="2000\n", memory__swap__max="max\n", pids__max="max\n", cpu__max="max 100000"
    )
    a_folder(tmp_path / "all/a/b", memory__max="1000\n", memory__swap__max="0\n", cpu__max="150000 100000\n")
    mounts = f"1 0 0:1 / {tmp_path}/all rw - cgroup2 c rw\n"
    proc = a_proc(tmp_path, mounts, "0::/a/b\n")
    assert limits_of(PID, proc) == Limits(1000, 1000, None, 1500)


def test_what_is_not_mounted_is_not_known(tmp_path: Path) -> None:
    proc = a_proc(tmp_path, "", "4:memory:/a\n")
    assert limits_of(PID, proc) == Limits()
