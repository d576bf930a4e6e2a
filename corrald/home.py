"""The folder in which `corrald up` keeps everything, and the addresses of what lies in it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_MAX = 90
"""A unix socket's path may have 107 bytes; some are left for the names below the folder."""


class HomeUnusable(Exception):
    """The folder cannot serve, and the message says why."""


@dataclass(frozen=True, slots=True)
class Home:
    """One place with SQLite, a private Valkey, the stored files and the node's own state."""

    path: Path

    @classmethod
    def default(cls) -> "Home":
        """`/var/lib/corral` for root, else a folder of the user's own."""
        if os.geteuid() == 0:
            return cls(Path("/var/lib/corral"))
        state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
        return cls(Path(state) / "corral")

    @classmethod
    def at(cls, folder: Path | None) -> "Home":
        """That folder, or the default one."""
        return cls.default() if folder is None else cls(folder.absolute())

    def make(self) -> None:
        """Create what is missing. Nobody else may read the database and the keys; a sandbox's user may pass through.

        Raises:
            HomeUnusable: it cannot be written to, or its path is too long for the sockets in it.
        """
        if len(os.fsencode(self.path)) > SOCKET_PATH_MAX:
            raise HomeUnusable(f"{self.path} is too long a path for the sockets in it; choose one with --home")
        try:
            self.path.mkdir(mode=0o711, parents=True, exist_ok=True)
            for private in (self.control_dir, self.storage_dir, self.logs_dir):
                private.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise HomeUnusable(f"{self.path} cannot be used: {error.strerror}; choose another with --home") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a second `corrald up` out; the kernel lets go of the folder with the process, however that ends.

        Raises:
            HomeUnusable: another one has it.
        """
        fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            message = f"another `corrald up` runs with {self.path}; stop it first, or choose another folder with --home"
            raise HomeUnusable(message) from None
        try:
            yield
        finally:
            os.close(fd)

    @property
    def control_dir(self) -> Path:
        return self.path / "control"

    @property
    def storage_dir(self) -> Path:
        return self.path / "storage"

    @property
    def logs_dir(self) -> Path:
        return self.path / "logs"

    @property
    def node_dir(self) -> Path:
        return self.path / "node"

    @property
    def database_file(self) -> Path:
        return self.control_dir / "corral.db"

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.database_file}"

    @property
    def storage_url(self) -> str:
        return f"file://{self.storage_dir}"

    @property
    def key_files(self) -> tuple[Path, ...]:
        """The platform's own keys, which a backup needs."""
        return (self.secrets_key_file, self.signing_key_file)

    @property
    def secrets_key_file(self) -> Path:
        return self.control_dir / "secrets.key"

    @property
    def signing_key_file(self) -> Path:
        return self.control_dir / "signing.key"

    @property
    def seals_url(self) -> str:
        return f"file://{self.path / 'seals'}"

    @property
    def redis_socket(self) -> Path:
        return self.control_dir / "valkey.sock"

    @property
    def redis_url(self) -> str:
        return f"unix://{self.redis_socket}"
