"""`corral admin adjust` and `corral admin adjustments`."""

from typing import Annotated

import typer
from corral.cli.numbers import moment_text, money_micro, money_text
from corral.cli.options import AsJson, OfTenant, TenantRef, connect, maybe_tenant_id, read, tenant_id
from corral.cli.output import print_json, print_table
from corral.ledger import AdjustmentSpec, LedgerEntryView


def adjust(
    tenant: TenantRef,
    reason: Annotated[str, typer.Option(help="Why, in a line that the tenant reads.")],
    credit: Annotated[str | None, typer.Option(metavar="MONEY", help="What the tenant gets, such as 2.50.")] = None,
    debit: Annotated[str | None, typer.Option(metavar="MONEY", help="What it is charged.")] = None,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="The job that it is about.")] = None,
    as_json: AsJson = False,
) -> None:
    """Credit or debit a tenant: a signed entry of its ledger."""
    if (credit is None) == (debit is None):
        raise typer.BadParameter("say either --credit or --debit")
    amount = read(lambda: money_micro(debit or "0") - money_micro(credit or "0"))
    with connect() as client:
        owner = tenant_id(client, tenant)
        spec = read(lambda: AdjustmentSpec(tenant_id=owner, amount_micro=amount, reason=reason, job_id=job))
        made = client.adjust(spec)
    print_json(made) if as_json else _print([made])


def list_adjustments(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List every credit and debit, the newest first."""
    with connect() as client:
        found = list(client.adjustments(tenant_id=maybe_tenant_id(client, tenant)))
    print_json(found) if as_json else _print(found)


def _print(entries: list[LedgerEntryView]) -> None:
    print_table(
        ("TENANT", "ENTRY", "AMOUNT", "WHEN", "JOB", "REASON"),
        [
            (
                e.tenant_id, str(e.seq), money_text(e.cost_micro), moment_text(e.posted_at), e.job_id or "",
                e.reason or "",
            )
            for e in entries
        ],
    )  # fmt: skip
