"""`corrald backup` and `corrald restore`."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from corrald import backup
from corrald.home import Home
from corrald.options import DatabaseOption, HomeOption, StorageOption

app = typer.Typer(rich_markup_mode=None)

KeysOption = Annotated[list[Path] | None, typer.Option("--key", help="A key file to keep too; without it, the home's.")]


@app.command("backup")
def make_backup(
    into: Annotated[Path, typer.Argument(help="A new folder; it will hold keys and everybody's data.")],
    home: HomeOption = None,
    database_url: DatabaseOption = None,
    storage_url: StorageOption = None,
    key: KeysOption = None,
    with_storage: Annotated[
        bool,
        typer.Option("--storage/--no-storage", help="Copy inputs, logs and artifacts too, if they lie in a folder."),
    ] = True,
) -> None:
    """Copy the database, the keys and the stored files into a folder, while everything runs."""
    place = Home.at(home)
    keys = key or [path for path in place.key_files if path.exists()]
    storage = _folder(storage_url or place.storage_url) if with_storage else None
    made = backup.back_up(database_url or place.database_url, keys, storage, into)
    print(f"{into} holds {made.database} (tables {made.tables}), {len(keys)} key files{_storage_words(storage)}")


@app.command("restore")
def restore_backup(
    source: Annotated[Path, typer.Argument(help="A folder that corrald backup made.")],
    home: HomeOption = None,
    database_url: DatabaseOption = None,
    storage_url: StorageOption = None,
    keys_dir: Annotated[Path | None, typer.Option(help="Where keys go; without it, the home.")] = None,
) -> None:
    """Bring a backup back into an empty place. Every node drains until an admin resumes it."""
    place = Home.at(home)
    if database_url is None:
        place.make()
    storage = _folder(storage_url or place.storage_url)
    made = backup.restore(source, database_url or place.database_url, keys_dir or place.control_dir, storage)
    print(f"the backup of {made.made} is back; nodes drain: see docs/operations.md before you resume them")


def _folder(url: str) -> Path | None:
    parts = urlsplit(url)
    return Path(parts.path) if parts.scheme == "file" else None


def _storage_words(storage: Path | None) -> str:
    return "" if storage is None else " and the stored files"
