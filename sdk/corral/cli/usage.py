"""`corral usage`: what was used and what it cost, and its exports."""

import time
from typing import Annotated, Any, get_args

import typer
from corral.cli import proofs
from corral.cli.numbers import moment_us, money_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_json, print_table, write_out
from corral.ledger import GROUPS, UsageFormat, UsageRow, UsageView

LABEL = "label:"
FIELDS = {"tenant": "tenant_id", "member": "member_id", "key": "key_id", "job": "job_id", "node": "node_id"}

app = typer.Typer(rich_markup_mode=None, help="Usage, and the proofs of it.")
for command in (proofs.chain, proofs.seal, proofs.pin, proofs.verify):
    app.command()(command)


@app.callback(invoke_without_command=True)
def usage(
    context: typer.Context,
    by: Annotated[str, typer.Option(help=f"Any of {', '.join(GROUPS)}, label:NAME; with commas.")] = "",
    since: Annotated[str | None, typer.Option(help='A date, a time, or "7d" for so long ago.')] = None,
    until: Annotated[str | None, typer.Option(help="The same.")] = None,
    tz: Annotated[str, typer.Option(help="Time zone of hours, days, weeks and months, such as Europe/Berlin.")] = "UTC",
    export: Annotated[str, typer.Option("--format", help="json, csv, or focus (FinOps FOCUS rows).")] = "",
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show GPU time and what it cost, exactly. By tenant, those below each one are counted beside it."""
    if context.invoked_subcommand is not None:
        return
    now_us = time.time_ns() // 1000
    if export and export not in get_args(UsageFormat):
        raise typer.BadParameter(f"--format is one of {', '.join(get_args(UsageFormat))}")
    groups = _groups(by or ("" if export == "focus" else "model"))
    asked: dict[str, Any] = {
        "since": None if since is None else read(lambda: moment_us(since, now_us)),
        "until": None if until is None else read(lambda: moment_us(until, now_us)),
        "tz": tz,
    }
    with connect() as client:
        asked["tenant_id"] = maybe_tenant_id(client, tenant)
        if export in ("csv", "focus"):
            for piece in client.usage_export("csv" if export == "csv" else "focus", groups, **asked):
                write_out(piece)
            return
        found = client.usage(groups, **asked)
    print_json(found) if as_json or export == "json" else _print_usage(found, groups)


def _groups(by: str) -> list[str]:
    groups = [group.strip() for group in by.split(",") if group.strip()]
    unknown = sorted(group for group in set(groups) - set(GROUPS) if not group.startswith(LABEL))
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)} is none of {', '.join(GROUPS)}, label:NAME")
    return groups


def _print_usage(view: UsageView, groups: list[str]) -> None:
    is_tree = "tenant" in groups
    rows = [_cells(row, groups, is_tree=is_tree) for row in view.rows]
    total = (view.total_gpu_hours, money_text(view.total_cost_micro), *(("", "") if is_tree else ()))
    if groups:
        rows.append(("total", *("" for _ in groups[1:]), *total))
    else:
        rows = [total]
    below = ("WITH THOSE BELOW", "COST") if is_tree else ()
    print_table((*(group.upper() for group in groups), "GPU HOURS", "COST", *below), rows)


def _cells(row: UsageRow, groups: list[str], *, is_tree: bool) -> tuple[str, ...]:
    named = (_value(row, group) for group in groups)
    below = row.with_below
    beside = ("", "") if below is None else (below.gpu_hours, money_text(below.cost_micro))
    return (*named, row.gpu_hours, money_text(row.cost_micro), *(beside if is_tree else ()))


def _value(row: UsageRow, group: str) -> str:
    if group.startswith(LABEL):
        return row.labels.get(group.removeprefix(LABEL)) or ""
    return str(getattr(row, FIELDS.get(group, group)) or "")
