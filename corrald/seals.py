"""`corrald seal` and `corrald verify`: for the operator, beside the database and the copies of the seals."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Engine

from control.sealer import Sealer
from corrald.home import Home
from corrald.options import DatabaseOption, HomeOption
from store.engine import open_engine, reading
from store.ledger_check import check_everything
from store.seal_files import SealFiles
from store.signing import read_keyring

KeyOption = Annotated[
    Path | None, typer.Option("--key-file", envvar="CORRAL_SIGNING_KEY_FILE", help="The file of signing keys.")
]
SealsOption = Annotated[
    str | None, typer.Option("--seals", envvar="CORRAL_SEALS_URL", help="Where copies of the seals lie.")
]


def seal(
    home: HomeOption = None,
    database_url: DatabaseOption = None,
    key_file: KeyOption = None,
    seals_url: SealsOption = None,
) -> None:
    """Seal the heads of all chains now, and keep the seal's copy outside of the database."""
    place = Home.at(home)
    keyring = read_keyring(key_file or place.signing_key_file)
    with _database(place, database_url) as engine:
        number = Sealer(engine, keyring, SealFiles(seals_url or place.seals_url)).seal_now()
    print(f"seal {number} was made by {keyring.key_id}, and is kept in {seals_url or place.seals_url}")


def verify(
    home: HomeOption = None,
    database_url: DatabaseOption = None,
    key_file: KeyOption = None,
    seals_url: SealsOption = None,
) -> None:
    """Check every chain of ledger and audit against itself, every seal and its copy; exit 1 and name the first bad
    entry of each chain."""
    place = Home.at(home)
    keyring = read_keyring(key_file or place.signing_key_file)
    with _database(place, database_url) as engine, reading(engine) as session:
        findings = check_everything(session, keyring, SealFiles(seals_url or place.seals_url))
    for finding in findings:
        print(f"{finding.where}{'' if finding.seq is None else f', entry {finding.seq}'}: {finding.problem}")
    if findings:
        raise typer.Exit(1)
    print("every chain is sound, and agrees with every seal")


@contextmanager
def _database(place: Home, database_url: str | None) -> Iterator[Engine]:
    engine = open_engine(database_url or place.database_url)
    try:
        yield engine
    finally:
        engine.dispose()
