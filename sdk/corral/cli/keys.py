"""`corral keys`: the keys of the own tenant."""

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from corral.cli.numbers import PURSE_UNITS, moment_text, money_micro, purse_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import note, print_json, print_line, print_table
from corral.identity import KeyPurse, KeySpec, KeyView, NewKey
from corral.quantities import duration_us

KeyName = Annotated[str, typer.Option(help="A line for people.")]
KeyRole = Annotated[
    str | None, typer.Option(help="viewer, member, tenant_admin or platform_admin; one's own if left out.")
]
ValidFor = Annotated[str | None, typer.Option("--valid-for", "--expires", help='Such as "30d"; for ever if left out.')]
KeyId = Annotated[str, typer.Argument(metavar="KEY", help="The key's id.")]

app = typer.Typer(no_args_is_help=True, help="Keys of the own tenant.")


@app.command("list")
def list_keys(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List keys, without their secrets."""
    with connect() as client:
        print_keys(list(client.keys(tenant_id=maybe_tenant_id(client, tenant))), as_json)


@app.command("create")
def create_key(
    name: KeyName = "key",
    valid_for: ValidFor = None,
    role: KeyRole = None,
    scope: Annotated[list[str] | None, typer.Option(help='What it may do, such as "jobs:write"; repeat.')] = None,
    image: Annotated[list[str] | None, typer.Option(help="An image that its jobs may name; repeat.")] = None,
    level: Annotated[list[str] | None, typer.Option(help="A level that its jobs may ask for; repeat.")] = None,
    gpus: Annotated[int | None, typer.Option(help="Most GPUs that its jobs hold at once.")] = None,
    gpu_hours: Annotated[int | None, typer.Option(help="Most GPU-hours that its jobs use in all.")] = None,
    money: Annotated[str | None, typer.Option(help="Most that its jobs cost in all, such as 100.00.")] = None,
    own_jobs_only: Annotated[bool, typer.Option("--own-jobs-only", help="It sees no jobs but its own.")] = False,
    child: Annotated[bool, typer.Option("--child", help="It ends with the key that makes it.")] = False,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a key with at most the rights of one's own; it is shown this once."""
    bounds: dict[str, Any] = {
        "scopes": scope, "images": image, "isolation_levels": level, "gpus": gpus, "gpu_hours": gpu_hours,
        "money_micro": None if money is None else read(lambda: money_micro(money)),
        "own_jobs_only": own_jobs_only or None, "is_child": child or None,
    }  # fmt: skip
    spec = key_spec(name, valid_for, role, bounds)
    with connect() as client:
        print_new_key(client.create_key(spec, tenant_id=maybe_tenant_id(client, tenant)), as_json)


@app.command("revoke")
def revoke_key(key: KeyId, as_json: AsJson = False) -> None:
    """End a key, at once."""
    with connect() as client:
        client.revoke_key(key)
    print_revoked(key, as_json)


def key_spec(name: str, valid_for: str | None, role: str | None, bounds: Mapping[str, Any]) -> KeySpec:
    """The key that the options describe; None says nothing."""
    said: dict[str, Any] = {"name": name}
    said |= {field: value for field, value in {"role": role, **bounds}.items() if value is not None}
    if valid_for is not None:
        said["expires_at"] = time.time_ns() // 1000 + read(lambda: duration_us(valid_for))
    return read(lambda: KeySpec(**said))


def print_keys(keys: list[KeyView], as_json: bool) -> None:
    """Keys, without their secrets."""
    if as_json:
        print_json(keys)
        return
    print_table(
        ("KEY", "NAME", "PREFIX", "ROLE", "SCOPES", "MADE BY", "LEFT TO USE", "EXPIRES", "REVOKED", "LAST USED"),
        [
            (
                k.id, k.name, k.prefix, k.role, "all" if k.scopes is None else " ".join(k.scopes),
                k.parent_key_id or k.member_id or "", totals_text(k.totals), moment_text(k.expires_at),
                moment_text(k.revoked_at), moment_text(k.last_used_at),
            )
            for k in keys
        ],
    )  # fmt: skip


def totals_text(totals: Sequence[KeyPurse]) -> str:
    """What is left of a key's totals: "1 of 2 GPUs, 4.50 of 5.00 money"."""
    return ", ".join(
        f"{purse_text(each.unit, each.left)} of {purse_text(each.unit, each.bound)} {PURSE_UNITS[each.unit]}"
        for each in totals
    )


def print_new_key(key: NewKey, as_json: bool) -> None:
    """The secret alone on standard output, for a pipe."""
    if as_json:
        print_json(key)
        return
    note(f"{key.id} ({key.role}) was made. This is the only time that it is shown:")
    print_line(key.key)


def print_revoked(key_id: str, as_json: bool) -> None:
    """That a key is no more."""
    if as_json:
        print_json({"id": key_id, "state": "revoked"})
    else:
        print_line(f"{key_id} revoked")
