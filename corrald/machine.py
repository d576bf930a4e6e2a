"""What this machine can do, each found out by trying it."""

import os
import shutil
from functools import cache
from pathlib import Path

from domain.levels import Level
from sandbox.bubblewrap import BubblewrapSandbox
from sandbox.contract import Probe
from sandbox.engine import DockerSandbox

NVIDIA_MARKS = ("/proc/driver/nvidia/version", "/dev/nvidiactl")
APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
