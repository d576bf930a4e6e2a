"""A copy of everything that cannot be made anew, and the way back from it.

```
manifest.json     what it is, of which version of the tables, and the hash of the database's copy
database.sqlite   or database.dump, as pg_dump writes it for pg_restore
keys/             the platform's own keys
storage/          inputs, logs and artifacts, if asked for and where they lie in a folder
```

The database is copied first: whatever it names was stored before it was named, so the later copy of the files has it.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, make_url

from corrald.refusals import Refusal
from store.engine import open_engine, writing
from store.migrate import migrate
from store.nodes import drain_all

MANIFEST = "manifest.json"
SQLITE, POSTGRES = "database.sqlite", "database.dump"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself."""

    database: str
    """The name of the file."""
    sha256: str
    tables: str
    """The newest migration in it."""
    made: str


def back_up(database_url: str, keys: Iterable[Path], storage: Path | None, into: Path) -> Manifest:
    """Copy into a new folder, while everything runs.

    Raises:
        Refusal: the folder is there already, or the database can't be copied.
    """
    try:
        into.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise Refusal(f"{into} is there already; name a new folder") from None
    try:
        return _copy_all(database_url, keys, storage, into)
    except BaseException:
        shutil.rmtree(into)  # half a backup is none, and would stand in the way of the next try
        raise


def _copy_all(database_url: str, keys: Iterable[Path], storage: Path | None, into: Path) -> Manifest:
    url = make_url(database_url)
    copy = into / (SQLITE if url.get_backend_name() == "sqlite" else POSTGRES)
    tables = _revision(database_url)
    if url.get_backend_name() == "sqlite":
        _copy_sqlite(url, copy)
    else:
        _run(["pg_dump", "--format=custom", "--no-owner", f"--file={copy}", _plain(url)], url)
    _copy_keys(keys, into / "keys")
    if storage is not None:
        shutil.copytree(storage, into / "storage")
    manifest = Manifest(copy.name, _digest(copy), tables, datetime.now(UTC).isoformat(timespec="seconds"))
    (into / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n")
    return manifest


def restore(source: Path, database_url: str, keys_dir: Path, storage: Path | None) -> Manifest:
    """Bring a backup back, into a database and folders that are empty.

    The tables are brought up to date, and every node drains: a node may run what was assigned after the backup was
    made, and nothing is placed there again until an admin resumes it.

    Raises:
        Refusal: it is no backup, it is damaged, or there is something in its place already.
    """
    manifest = _manifest(source)
    url = make_url(database_url)
    is_sqlite = url.get_backend_name() == "sqlite"
    if (manifest.database == SQLITE) != is_sqlite:
        raise Refusal(f"the backup's {manifest.database} cannot go into a database of {url.get_backend_name()}")
    if storage is not None and storage.exists() and any(storage.iterdir()):
        raise Refusal(f"{storage} is not empty")
    if is_sqlite:
        _place_sqlite(source / SQLITE, url)
    else:
        if _revision(database_url):
            raise Refusal("the database is not empty; make a new one, and name that")
        _run(["pg_restore", "--no-owner", "--exit-on-error", f"--dbname={_plain(url)}", str(source / POSTGRES)], url)
    _copy_keys((source / "keys").glob("*"), keys_dir)
    if storage is not None and (source / "storage").is_dir():
        shutil.copytree(source / "storage", storage, dirs_exist_ok=True)
    engine = open_engine(database_url)
    migrate(engine)
    with writing(engine) as session:
        drain_all(session)
    engine.dispose()
    return manifest


def _manifest(source: Path) -> Manifest:
    try:
        manifest = Manifest(**json.loads((source / MANIFEST).read_text()))
    except (OSError, ValueError, TypeError) as error:
        raise Refusal(f"{source} is no backup: {error}") from error
    copy = source / manifest.database
    if manifest.database not in (SQLITE, POSTGRES) or not copy.is_file() or _digest(copy) != manifest.sha256:
        raise Refusal(f"the database's copy in {source} is damaged: it is not what {MANIFEST} says")
    return manifest


def _copy_sqlite(url: URL, copy: Path) -> None:
    if not url.database or not Path(url.database).is_file():
        raise Refusal(f"there is no database {url.database}")
    with closing(sqlite3.connect(url.database)) as live, closing(sqlite3.connect(copy)) as target:
        live.backup(target)
    copy.chmod(0o600)


def _place_sqlite(copy: Path, url: URL) -> None:
    target = Path(url.database or "")
    if target.exists():
        raise Refusal(f"{target} is there already; restore into an empty home")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(copy, target)
    target.chmod(0o600)


def _copy_keys(keys: Iterable[Path], folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for key in keys:
        if not key.is_file():
            continue
        fd = os.open(folder / key.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "wb") as target:
            target.write(key.read_bytes())


def _revision(database_url: str) -> str:
    engine = open_engine(database_url)
    with engine.connect() as connection:
        heads = MigrationContext.configure(connection).get_current_heads()
    engine.dispose()
    return ",".join(sorted(heads))


def _run(command: list[str], url: URL) -> None:
    """The password goes by the environment: arguments are for every user of the machine to read."""
    environment = os.environ | ({"PGPASSWORD": url.password} if url.password else {})
    try:
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, check=False)
    except FileNotFoundError:
        raise Refusal(f"{command[0]} is missing: install PostgreSQL's client programs") from None
    if done.returncode:
        raise Refusal(f"{command[0]} failed: {done.stderr.decode(errors='replace').strip()[-500:]}")


def _plain(url: URL) -> str:
    return url._replace(drivername="postgresql", password=None).render_as_string()


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
