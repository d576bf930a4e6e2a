"""`corrald keys`: the platform's own keys, made and rotated by its operator."""

from pathlib import Path
from typing import Annotated

import typer

from corrald.home import Home
from corrald.options import HomeOption, SecretsKeyOption, SigningKeyOption
from corrald.refusals import Refusal
from domain.errors import CorralError
from store.engine import open_engine
from store.master_keys import add_key, master_keys
from store.rewrapping import rewrap_all
from store.signing import new_signing_key

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make and rotate the platform's own keys.")
new = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make a key.")
rotate = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Bring what is kept under the newest key.")
app.add_typer(new, name="new")
app.add_typer(rotate, name="rotate")


@new.command("secrets")
def new_secrets_key(home: HomeOption = None, file: SecretsKeyOption = None) -> None:
    """Add a master key to the file; the newest seals from now on, and the others still open what they sealed."""
    path = _file(home, file)
    print(f"master key {add_key(path)} is the newest of {path}; run: corrald keys rotate secrets")


@new.command("signing")
def new_signing(home: HomeOption = None, file: SigningKeyOption = None) -> None:
    """Make a key that signs receipts and seals from now on; the public parts of those before it stay in the file."""
    path = file or Home.at(home).signing_key_file
    print(f"{new_signing_key(path).key_id} signs from the next start of api and control on, by {path}")


@rotate.command("secrets")
def rotate_secrets_keys(
    home: HomeOption = None,
    file: SecretsKeyOption = None,
    kms_command: Annotated[str | None, typer.Option(envvar="CORRAL_SECRETS_KMS_COMMAND")] = None,
    database_url: Annotated[str | None, typer.Option(envvar="CORRAL_DATABASE_URL")] = None,
) -> None:
    """Wrap everything that is sealed by the newest master key; then older ones may be taken out of the file."""
    place = Home.at(home)
    engine = open_engine(database_url or place.database_url)
    try:
        count = rewrap_all(engine, master_keys(_file(home, file), kms_command))
    except CorralError as error:
        raise Refusal(f"{error}; what was done before stays done, and the rest can be tried again") from error
    finally:
        engine.dispose()
    print(f"{count} sealed values are under the newest master key now")


def _file(home: Path | None, file: Path | None) -> Path:
    return file or Home.at(home).secrets_key_file
