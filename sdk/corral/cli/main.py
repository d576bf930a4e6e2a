"""The command `corral`: its parts put together, and the one place where a refusal becomes an exit code."""

import sys

import typer
from corral.cli import (
    account,
    artifacts,
    audit,
    batch,
    budget,
    catalogue,
    jobs,
    keys,
    logs,
    members,
    proofs,
    quota,
    secrets,
    show,
    submit,
    templates,
    usage,
    webhooks,
)
from corral.cli.admin import adjustments, images, ledger, nodes, prices, tenants
from corral.cli.admin import budget as tenant_budget
from corral.cli.admin import keys as tenant_keys
from corral.cli.admin import quota as tenant_quota
from corral.cli.output import note, print_failure
from corral.errors import CorralError

REFUSED = 1

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="GPU jobs on a Corral server.",
)
for command in (
    account.login, jobs.ps, show.show, logs.logs, jobs.cancel, jobs.hold, jobs.release, batch.batch, batch.array,
    artifacts.artifacts, proofs.receipt, budget.budget, catalogue.images, catalogue.gpus, account.whoami,
):  # fmt: skip
    app.command()(command)
# what follows the program's name is the program's, with or without the two dashes
app.command(context_settings={"allow_interspersed_args": False})(submit.submit)
app.add_typer(keys.app, name="keys")
app.add_typer(members.app, name="members")
app.add_typer(secrets.app, name="secrets")
app.add_typer(templates.app, name="templates")
app.add_typer(audit.app, name="audit")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(quota.app, name="quota")
app.add_typer(usage.app, name="usage")

admin = typer.Typer(no_args_is_help=True, help="For admins.", rich_markup_mode=None)
for name, part in (
    ("tenants", tenants.app), ("quota", tenant_quota.app), ("budget", tenant_budget.app), ("keys", tenant_keys.app),
    ("nodes", nodes.app),
    ("images", images.app), ("prices", prices.app), ("ledger", ledger.app),
):  # fmt: skip
    admin.add_typer(part, name=name)
admin.command()(adjustments.adjust)
admin.command("adjustments")(adjustments.list_adjustments)
app.add_typer(admin, name="admin")


def main() -> None:
    """Run the command line; exit 1 on a refusal, 2 on a mistake in its use, else as the command says."""
    try:
        app(prog_name="corral")
    except CorralError as error:
        print_failure(error)
        sys.exit(REFUSED)
    except OSError as error:  # a file that cannot be written, say
        note(f"corral: {error}")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main()
