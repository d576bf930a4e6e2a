"""`corral login` and `whoami`."""

import sys
from typing import Annotated

import typer
from corral.cli.keys import totals_text
from corral.cli.login import log_in
from corral.cli.options import PATIENCE_SECONDS, AsJson, connect
from corral.cli.output import note, print_fields, print_json
from corral.client import Client
from corral.config import checked, config_file, write_settings
from corral.identity import Whoami


def login(
    url: Annotated[str | None, typer.Option(help="The server, such as https://corral.example.org.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key. Better left out: it is asked for, or read from standard input.")
    ] = None,
    sso: Annotated[bool, typer.Option("--sso", help="Log in as a person, in a browser on any machine.")] = False,
    tenant: Annotated[
        str | None, typer.Option(help='With --sso, if you have a place at several: a tenant, or "platform".')
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a key against its server, and keep both for later."""
    url = url or typer.prompt("Server", err=True)
    settings = log_in(url, tenant) if sso else checked(url, (key or _asked_key()).strip())
    with Client(settings.url, settings.key, patience_seconds=PATIENCE_SECONDS) as client:
        who = client.whoami()
    file = config_file()
    write_settings(settings, file)
    note(f"written to {file}")
    _print_whoami(who, as_json)


def whoami(as_json: AsJson = False) -> None:
    """Say whose key this is."""
    with connect() as client:
        _print_whoami(client.whoami(), as_json)


def _asked_key() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Key", hide_input=True, err=True))
    return sys.stdin.readline()


def _print_whoami(who: Whoami, as_json: bool) -> None:
    if as_json:
        print_json(who)
        return
    tenant = f"{who.tenant_name} ({who.tenant_id})" if who.tenant_id else ""
    print_fields([("key", who.key_id), ("role", who.role), ("tenant", tenant), ("left", totals_text(who.totals))])
