"""`corrald fleet-secrets` and `corrald join-token`: what a fleet needs before its services can start."""

import os
from pathlib import Path
from typing import Annotated

import typer

from corrald import fleet_secrets
from corrald.first_start import join_token
from store.engine import open_engine

app = typer.Typer(rich_markup_mode=None)


@app.command("fleet-secrets")
def make_fleet_secrets(
    folder: Annotated[Path, typer.Argument(help="Where compose.yaml's services find theirs.")],
) -> None:
    """Make the passwords and keys of a fleet, once; as root."""
    print("made" if fleet_secrets.make(folder) else "they are there already")


@app.command("join-token")
def make_join_token(
    node: Annotated[str, typer.Argument(help="The name under which the node will join.")],
    database_url: Annotated[str, typer.Option(envvar="CORRAL_DATABASE_URL")],
    into: Annotated[
        Path | None, typer.Option(help="Write it there as a setting, unless something stands there, and print nothing.")
    ] = None,
) -> None:
    """Make a token with which one node may join, once, within ten minutes."""
    if into is None:
        print(join_token(open_engine(database_url), node))
        return
    try:
        fd = os.open(into, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        print(f"{into} is there already")
        return
    with os.fdopen(fd, "w") as file:
        file.write(f"CORRAL_JOIN_TOKEN={join_token(open_engine(database_url), node)}\n")
