"""Makes small images from the host's own files, with no registry: for the probe, the demo and the tests."""

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Final

from sandbox.engine_client import EngineClient

REPOSITORY: Final = "corral/busybox"
APPLETS: Final = (
    *("[", "awk", "base64", "cat", "chmod", "chown", "cp", "cut", "date", "dd", "df", "dmesg", "du", "echo", "env"),
    *("expr", "false", "find", "free", "grep", "gunzip", "gzip", "head", "hostname", "id", "ip", "kill", "ln", "ls"),
    *("md5sum", "mkdir", "mkfifo", "mknod", "mount", "mv", "nc", "nproc", "od", "ping", "printf", "ps", "pwd", "rm"),
    *("readlink", "rmdir", "sed", "seq", "setsid", "sh", "sha256sum", "sleep", "sort", "stat", "sync", "tail", "tar"),
    *("tee", "test", "timeout", "top", "touch", "tr", "true", "truncate", "umount", "uname", "uniq", "unshare", "wc"),
    *("wget", "which", "whoami", "xargs", "yes"),
)
FOLDERS: Final = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "usr")
PASSWD: Final = b"root:x:0:0:root:/:/bin/sh\njob:x:64001:64001:job:/tmp:/bin/sh\n"


def busybox_layer(busybox: Path, extra: dict[str, bytes] | None = None) -> bytes:
    """A tar of one static busybox with its applets as links, and of `extra` files by path; the same every time."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in FOLDERS:
            tar.addfile(_entry(folder, tarfile.DIRTYPE))
        _add_file(tar, "bin/busybox", busybox.read_bytes(), 0o755)
        for applet in APPLETS:
            link = _entry(f"bin/{applet}", tarfile.SYMTYPE)
            link.linkname = "busybox"
            tar.addfile(link)
        _add_file(tar, "etc/passwd", PASSWD, 0o644)
        for name, content in (extra or {}).items():
            _add_file(tar, name, content, 0o755)
    return archive.getvalue()


def ensure_busybox_image(engine: EngineClient, busybox: Path, repository: str = REPOSITORY) -> str:
    """The id of an image that holds this busybox and nothing else; made on the first call, found on the next ones.

    Raises:
        EngineAway: no engine answers.
        SandboxFault: the engine refuses the import.
    """
    layer = busybox_layer(busybox)
    return engine.find_image(named := f"{repository}:{_digest(layer)}") or engine.import_image(layer, named)


def _digest(layer: bytes) -> str:
    """The tag: what is in it, so that another busybox is another image."""
    return hashlib.sha256(layer).hexdigest()[:16]


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = _entry(name, tarfile.REGTYPE)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _entry(name: str, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = kind, 0o755
    return entry
