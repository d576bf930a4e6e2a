"""Options that several of `corrald`'s commands have, with one meaning."""

from pathlib import Path
from typing import Annotated

import typer

HomeOption = Annotated[
    Path | None, typer.Option("--home", help="Folder in which corrald up keeps everything.", show_default=False)
]
DatabaseOption = Annotated[
    str | None, typer.Option(envvar="CORRAL_DATABASE_URL", help="The database; without it, SQLite in the home.")
]
StorageOption = Annotated[
    str | None, typer.Option(envvar="CORRAL_STORAGE_URL", help="Where files lie; without it, the home's storage.")
]
SecretsKeyOption = Annotated[
    Path | None, typer.Option("--file", envvar="CORRAL_SECRETS_KEY_FILE", help="The file of master keys.")
]
SigningKeyOption = Annotated[
    Path | None, typer.Option("--file", envvar="CORRAL_SIGNING_KEY_FILE", help="The file of signing keys.")
]
