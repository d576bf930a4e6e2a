"""What this machine and its engine are: read once, before anything is asked of them."""

import os
import re
import resource
import shutil
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sandbox.contract import SandboxFault
from sandbox.engine_client import EngineClient
from sandbox.hardening import HostBounds
from sandbox.job_user import PLENTY, REMAPPED

CDI_SINCE: Final = (26, 1)
RUNC_FIXED: Final = {(1, 2): 8, (1, 3): 3}
"""The first patch release of each line that has the fixes of November 2025; 1.4.0 and later have them."""
RUNC_ADVISORIES: Final = "CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881"
REMAPPED_DIR: Final = re.compile(r"/(\d+)\.(\d+)/?$")
OPEN_FILES: Final = re.compile(r"^Max open files\s+\d+\s+(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """An engine's own words on itself, and the bounds that follow."""

    server_version: str
    runtimes: frozenset[str]
    runc_version: str
    remaps_users: bool
    """Whether root in a container is an ordinary user of the host's."""
    user_offset: int
    """What the host adds to a container's user ids; 0 where users are not remapped."""
    has_live_restore: bool
    bounds: HostBounds


def read_facts(engine: EngineClient) -> EngineFacts:
    """Ask the engine and the kernel.

    Raises:
        EngineAway: no engine answers.
    """
    version, info = engine.version(), engine.info()
    security = [str(option) for option in info.get("SecurityOptions") or ()]
    server = str(info.get("ServerVersion") or "")
    remaps_users = any("name=userns" in option for option in security)
    return EngineFacts(
        server_version=server,
        runtimes=frozenset(info.get("Runtimes") or ()),
        runc_version=_component(version, "runc"),
        remaps_users=remaps_users,
        user_offset=_user_offset(str(info.get("DockerRootDir") or "")) if remaps_users else 0,
        has_live_restore=bool(info.get("LiveRestoreEnabled")),
        bounds=HostBounds(
            cpus=int(info["NCPU"]),
            nofile_max=_nofile_max(engine.socket_path),
            has_cdi=_numbers(server) >= CDI_SINCE and bool(info.get("CDISpecDirs")),
            uids=REMAPPED if remaps_users else PLENTY,
        ),
    )


def warnings(facts: EngineFacts) -> tuple[str, ...]:
    """What is missing on an engine that may be used all the same; each says what would help."""
    said = []
    if not is_runc_fixed(facts.runc_version):
        said.append(
            f"runc {facts.runc_version or 'of an unknown version'} lacks the fixes of {RUNC_ADVISORIES}: offer this "
            "level to trusted tenants only, or update runc to 1.2.8, 1.3.3, 1.4.0 or later"
        )
    if not facts.has_live_restore:
        said.append('a restart of the engine ends every job: set "live-restore": true in /etc/docker/daemon.json')
    if not facts.remaps_users:
        said.append('users are not remapped: set "userns-remap": "default" in /etc/docker/daemon.json')
    return tuple(said)


def is_runc_fixed(version: str) -> bool:
    """Whether this runc has the fixes of November 2025; a candidate of a fixed release does not count as fixed."""
    numbers = _numbers(version)
    if len(numbers) < 3:
        return False
    line, patch = numbers[:2], numbers[2]
    if line in RUNC_FIXED:
        return patch >= RUNC_FIXED[line]
    return line >= (1, 4) and not (numbers[:3] == (1, 4, 0) and "-rc" in version)


def static_busybox() -> Path:
    """This machine's static busybox, from which the gate is made.

    Raises:
        SandboxFault: there is none; the message says what to install.
    """
    path = f"{os.environ.get('PATH', '')}:/bin:/usr/bin:/sbin"
    for name in ("busybox", "busybox.static"):
        found = shutil.which(name, path=path)
        if found is not None and is_static(Path(found)):
            return Path(found).resolve()
    raise SandboxFault("no static busybox is on this machine: install the package busybox-static")


def is_static(program: Path) -> bool:
    """Whether a 64-bit ELF program needs no loader: such a one runs in any image, and obeys no LD_PRELOAD."""
    with program.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:5] != b"\x7fELF\x02" or header[5] != 1:
            return False
        (table,) = struct.unpack_from("<Q", header, 32)
        size, count = struct.unpack_from("<HH", header, 54)
        file.seek(table)
        segments = file.read(size * count)
    interpreter = 3
    return all(struct.unpack_from("<I", segments, size * i)[0] != interpreter for i in range(count))


def _user_offset(root_dir: str) -> int:
    """An engine that remaps users names the folder of its files by the first user and group of the range."""
    found = REMAPPED_DIR.search(root_dir)
    if found is None or found.group(1) != found.group(2):
        raise SandboxFault("the engine remaps users in a way that is not understood here")
    return int(found.group(1))


def _component(version: Mapping[str, Any], name: str) -> str:
    parts = version.get("Components") or ()
    return next((str(part.get("Version") or "") for part in parts if part.get("Name") == name), "")


def _numbers(version: str) -> tuple[int, ...]:
    head = re.match(r"\d+(\.\d+)*", version)
    return tuple(map(int, head.group().split("."))) if head else ()


def _nofile_max(socket_path: str) -> int:
    """The daemon's own limit of open files, found by who answers on its socket; no more than ours."""
    _, own = resource.getrlimit(resource.RLIMIT_NOFILE)
    own = own if own != resource.RLIM_INFINITY else 1 << 30
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(socket_path)
            pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        found = OPEN_FILES.search(Path(f"/proc/{pid}/limits").read_text())
    except OSError:
        return own  # its process is not ours to look at
    return min(own, int(found.group(1))) if found else own
