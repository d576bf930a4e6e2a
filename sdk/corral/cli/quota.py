"""`corral quota`: what may be used, and asking for more."""

import time
from typing import Annotated

import typer
from corral.cli.numbers import moment_text, moment_us, money_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_fields, print_json, print_line, print_table
from corral.quantities import duration_text, duration_us
from corral.quotas import GpuQuotaView, QuotaAsk, QuotaRequestView, QuotaView, RequestState

RequestId = Annotated[str, typer.Argument(metavar="REQUEST", help="The request's id.")]
END_HELP = 'When it ends: a span from now such as "14d", or a date.'

app = typer.Typer(invoke_without_command=True, help="What may be used, and asking for more.")


@app.callback()
def quota(context: typer.Context, tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """Show what may be used, and what is; or ask for more."""
    if context.invoked_subcommand is not None:
        return
    with connect() as client:
        found = client.quota(tenant_id=maybe_tenant_id(client, tenant))
    print_json(found) if as_json else print_quota(found)


@app.command("ask")
def ask(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or * for GPUs of any.")],
    reason: Annotated[str, typer.Option(help="Why; the admin reads it.")],
    until: Annotated[str, typer.Option(help=END_HELP)],
    gpus: Annotated[int, typer.Option(help="So many more at once.")] = 0,
    guaranteed: Annotated[int, typer.Option(help="So many more guaranteed.")] = 0,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Ask for more than the quota grants, for a time."""
    end = read(lambda: end_us(until))
    spec = read(lambda: QuotaAsk(model=model, limit=gpus, guaranteed=guaranteed, reason=reason, until=end))
    with connect() as client:
        print_request(client.ask_for_quota(spec, tenant_id=maybe_tenant_id(client, tenant)), as_json)


@app.command("requests")
def list_requests(
    state: Annotated[RequestState | None, typer.Option(help="Only these.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """List what was asked for, and what became of it."""
    with connect() as client:
        found = list(client.quota_requests(state=state, tenant_id=maybe_tenant_id(client, tenant)))
    if as_json:
        print_json(found)
        return
    print_table(
        ("REQUEST", "TENANT", "STATE", "MORE", "UNTIL", "REASON", "ANSWER"),
        [(r.id, r.tenant_id, r.state, _more_text(r), moment_text(r.until), r.reason, r.answer) for r in found],
    )


@app.command("withdraw")
def withdraw(request: RequestId, as_json: AsJson = False) -> None:
    """Take a request back, or give back what was granted."""
    with connect() as client:
        print_request(client.withdraw_quota_request(request), as_json)


def end_us(text: str) -> int:
    """When something ends, in microseconds since the epoch: a span from now, or a date.

    Raises:
        ValueError: it is neither.
    """
    now_us = time.time_ns() // 1000
    try:
        return now_us + duration_us(text)
    except ValueError:
        return moment_us(text, now_us)


def print_request(view: QuotaRequestView, as_json: bool) -> None:
    """One request."""
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id} {view.state}: {_more_text(view)} until {moment_text(view.until)}")


def print_quota(view: QuotaView) -> None:
    """A quota, and what is used of it."""
    images = "all of the catalogue" if view.images is None else ", ".join(view.images) or "none"

    def inherited(name: str) -> str:
        return _from_text(view.steps_up.get(name, 0))

    print_fields(
        [
            ("tenant", view.tenant_id),
            *((f"GPUs, {_model(row)}", _gpu_text(row)) for row in view.gpus),
            ("GPUs", "" if view.gpus else "none granted"),
            ("queued", f"{view.queued} of {view.most_queued}{inherited('most_queued')}"),
            ("running", f"{view.running} of {view.most_running}{inherited('most_running')}"),
            ("time limit", f"at most {duration_text(view.longest_time_limit)}{inherited('longest_time_limit')}"),
            ("priority", f"at most {view.highest_priority}{inherited('highest_priority')}"),
            ("isolation", (", ".join(view.isolation_levels) or "none") + inherited("isolation_levels")),
            ("images", images + inherited("images")),
            ("GPU hours", _monthly(view.gpu_hours_per_month, inherited("gpu_hours_per_month"))),
            ("money", _monthly(_money(view.money_micro_per_month), inherited("money_micro_per_month"))),
            *(("granted", f"{_more_text(each)} until {moment_text(each.until)}") for each in view.grants),
            ("over", "; ".join(view.over)),
        ]
    )


def _monthly(bound: object, origin: str) -> str:
    return "" if bound is None else f"at most {bound} a month{origin}"


def _money(micro: int | None) -> str | None:
    return None if micro is None else money_text(micro)


def _model(row: GpuQuotaView) -> str:
    return "all models" if row.model == "*" else row.model


def _gpu_text(row: GpuQuotaView) -> str:
    limit = "no limit" if row.limit is None else f"{row.limit}{_from_text(row.steps_up)}"
    parts = [f"{_decimal(row.used_milli)} of {limit}"]
    if row.guaranteed:
        lent = "" if row.lendable is None else f", {row.lendable} of them lent"
        parts.append(f"{row.guaranteed} guaranteed{lent}")
    if row.borrowable is not None:
        parts.append(f"{row.borrowable} borrowable")
    if row.reserved_milli:
        parts.append(f"{_decimal(row.reserved_milli)} kept for tenants below")
    return "; ".join(parts)


def _decimal(milli: int) -> str:
    return f"{milli // 1000}.{milli % 1000:03d}".rstrip("0").rstrip(".")


def _from_text(steps_up: int) -> str:
    if steps_up == 0:
        return ""
    return " (of the tenant above)" if steps_up == 1 else f" (of the tenant {steps_up} levels above)"


def _more_text(view: QuotaRequestView) -> str:
    what = "GPUs" if view.model == "*" else view.model
    amounts = ((view.limit, ""), (view.guaranteed, " guaranteed"))
    return " and ".join(f"{count} more {what}{how}" for count, how in amounts if count)
