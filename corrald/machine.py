"""What this machine can do, each found out by trying it."""

import tempfile
from pathlib import Path

from domain.ids import NodeId
from domain.levels import Level
from sandbox.bubblewrap import BubblewrapSandbox
from sandbox.contract import Probe
from sandbox.engine import DockerSandbox

NVIDIA_MARKS = (Path("/proc/driver/nvidia/version"), Path("/dev/nvidiactl"))
APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
PROBE_NODE = NodeId("nod_probe")


def probe(level: Level) -> Probe:
    """Start a sandbox of this level in a folder of its own, look at it, and remove it."""
    with tempfile.TemporaryDirectory(prefix="corral-probe-") as folder:
        Path(folder).chmod(0o711)
        if level is Level.PROCESS:
            return BubblewrapSandbox(Path(folder), PROBE_NODE).probe()
        docker = DockerSandbox(Path(folder), PROBE_NODE)
        try:
            return docker.probe()
        finally:
            docker.close()


def why_not(level: Level) -> str:
    """Why a level cannot be offered here, in a sentence that names what helps; empty if it can."""
    found = probe(level)
    return "" if found.is_offered else "; ".join(found.reasons) or f"the level {level} does not work here"


def has_nvidia() -> bool:
    """Whether an NVIDIA driver is loaded."""
    return any(mark.exists() for mark in NVIDIA_MARKS)
