"""Why a host may forbid user namespaces to ordinary users, and the one command that helps."""

import os
from pathlib import Path

KNOBS = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps user namespaces from ordinary users here (as Ubuntu 24.04 does): "
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "the kernel keeps user namespaces from ordinary users: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "the kernel allows no user namespace: sudo sysctl -w user.max_user_namespaces=15000",
    ),
)


def what_forbids(root: Path = Path("/")) -> str:
    """The setting that forbids them, with the command that lifts it; empty if none that we know of does."""
    for file, value, sentence in KNOBS:
        place = root / file.lstrip("/")
        if place.exists() and place.read_text().strip() == value:
            return sentence if os.geteuid() != 0 else sentence.replace("sudo ", "")
    return ""
