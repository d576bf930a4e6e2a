"""`corral login`, `whoami` and `usage`."""

import sys
import time
from typing import Annotated

import typer
from corral.accounts import UsageView
from corral.cli.numbers import moment_us, money_text
from corral.cli.options import PATIENCE_SECONDS, AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import note, print_fields, print_json, print_table
from corral.client import Client
from corral.config import checked, config_file, write_settings
from corral.identity import Whoami

USAGE_COLUMNS = ("tenant", "job", "model", "day", "cause")


def login(
    url: Annotated[str | None, typer.Option(help="The server, such as https://corral.example.org.")] = None,
    key: Annotated[
        str | None, typer.Option(help="The key. Better left out: it is asked for, or read from standard input.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a key against its server, and keep both for later."""
    url = url or typer.prompt("Server", err=True)
    settings = checked(url, (key or _asked_key()).strip())
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


def usage(
    by: Annotated[str, typer.Option(help="Any of tenant, model, job, day, cause; with commas.")] = "model",
    since: Annotated[str | None, typer.Option(help='A date, a time, or "7d" for so long ago.')] = None,
    until: Annotated[str | None, typer.Option(help="The same.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show GPU time and what it cost, exactly."""
    now_us = time.time_ns() // 1000
    from_us = None if since is None else read(lambda: moment_us(since, now_us))
    until_us = None if until is None else read(lambda: moment_us(until, now_us))
    groups = [group.strip() for group in by.split(",") if group.strip()]
    if unknown := set(groups) - set(USAGE_COLUMNS):
        raise typer.BadParameter(f"{', '.join(sorted(unknown))} is none of {', '.join(USAGE_COLUMNS)}")
    with connect() as client:
        of = maybe_tenant_id(client, tenant)
        found = client.usage(groups, since=from_us, until=until_us, tenant_id=of)
    print_json(found) if as_json else _print_usage(found, groups)


def _asked_key() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("Key", hide_input=True, err=True))
    return sys.stdin.readline()


def _print_whoami(who: Whoami, as_json: bool) -> None:
    if as_json:
        print_json(who)
        return
    tenant = f"{who.tenant_name} ({who.tenant_id})" if who.tenant_id else ""
    print_fields([("key", who.key_id), ("role", who.role), ("tenant", tenant)])


def _print_usage(view: UsageView, groups: list[str]) -> None:
    rows = []
    for row in view.rows:
        named = {
            "tenant": row.tenant_id, "job": row.job_id, "model": row.model, "day": row.day, "cause": row.cause
        }  # fmt: skip
        rows.append((*(named[group] or "" for group in groups), row.gpu_hours, money_text(row.cost_micro)))
    if groups:
        rows.append(
            ("total", *("" for _ in groups[1:]), view.total_gpu_hours, money_text(view.total_cost_micro))
        )  # fmt: skip
    else:
        rows = [(view.total_gpu_hours, money_text(view.total_cost_micro))]
    print_table((*(group.upper() for group in groups), "GPU HOURS", "COST"), rows)
