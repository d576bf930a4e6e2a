"""`corral secrets`: what jobs read and nobody sees."""

import sys
from getpass import getpass
from pathlib import Path
from typing import Annotated

import typer
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_json, print_line, print_table
from corral.secrets import SECRET_BYTES_MAX, SECRETS_PLACE, SecretSpec

SecretNameArgument = Annotated[str, typer.Argument(metavar="NAME", help=f"As jobs find it in {SECRETS_PLACE}.")]

app = typer.Typer(no_args_is_help=True, help="Secrets of the own tenant; jobs read them, and nobody sees them.")


@app.command("list")
def list_secrets(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List secrets, without their values."""
    with connect() as client:
        found = list(client.secrets(tenant_id=maybe_tenant_id(client, tenant)))
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "VERSION", "BYTES", "SET", "LAST USED"),
        [
            (s.name, str(s.version), str(s.size_bytes), moment_text(s.created_at), moment_text(s.last_used_at))
            for s in found
        ],
    )


@app.command("set")
def set_secret(
    name: SecretNameArgument,
    from_file: Annotated[Path | None, typer.Option(help="Read the value, byte for byte, from this file.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Set or replace a secret: from a file, a pipe, or asked for at the terminal; never as an argument."""
    content = _content(name, from_file)
    read(lambda: SecretSpec.of(content))
    with connect() as client:
        made = client.set_secret(name, content, tenant_id=maybe_tenant_id(client, tenant))
    print_json(made) if as_json else print_line(f"{made.name} is set (version {made.version})")


@app.command("delete")
def delete_secret(name: SecretNameArgument, tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """Delete a secret. A job that names it and has not started yet fails when it would."""
    with connect() as client:
        client.delete_secret(name, tenant_id=maybe_tenant_id(client, tenant))
    print_json({"name": name, "state": "deleted"}) if as_json else print_line(f"{name} deleted")


def _content(name: str, file: Path | None) -> bytes:
    """The value. Of what is typed or piped, the line's end that closes it is no part."""
    if file is not None:
        with file.open("rb") as stream:
            return stream.read(SECRET_BYTES_MAX + 1)
    if sys.stdin.isatty():
        return getpass(f"{name}: ").encode()
    return sys.stdin.buffer.read(SECRET_BYTES_MAX + 2).removesuffix(b"\n").removesuffix(b"\r")
