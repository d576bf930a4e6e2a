"""`corral webhooks`: who is told of events."""

from typing import Annotated, Any

import typer
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import note, print_json, print_line, print_table
from corral.webhooks import DeliveryView, NewWebhook, WebhookChange, WebhookSpec

app = typer.Typer(no_args_is_help=True, help="Who is told of events.")

WebhookId = Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook's id.")]
DeliveryId = Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery's id.")]
Types = Annotated[list[str] | None, typer.Option("--type", help="Such as job.failed; more than one; all if left out.")]
Description = Annotated[str | None, typer.Option(help="A line for people.")]


@app.command("list")
def list_webhooks(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List webhooks, without their secrets."""
    with connect() as client:
        found = list(client.webhooks(tenant_id=maybe_tenant_id(client, tenant)))
    if as_json:
        print_json(found)
        return
    print_table(
        ("WEBHOOK", "URL", "TYPES", "STATE", "FAILING SINCE", "DESCRIPTION"),
        [
            (w.id, w.url, ", ".join(w.types) or "all", w.state, moment_text(w.failing_since), w.description or "")
            for w in found
        ],
    )


@app.command("create")
def create(
    url: Annotated[str, typer.Argument(help="https:// and a public host.")],
    types: Types = None,
    description: Description = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Make a webhook; its secret is shown this once."""
    said: dict[str, Any] = {"url": url, "types": types or [], "description": description}
    spec = read(lambda: WebhookSpec(**said))
    with connect() as client:
        _print_new(client.create_webhook(spec, tenant_id=maybe_tenant_id(client, tenant)), as_json)


@app.command("set")
def change(
    webhook: WebhookId,
    url: Annotated[str | None, typer.Option(help="Where it goes from now on.")] = None,
    types: Types = None,
    description: Description = None,
    state: Annotated[str | None, typer.Option(help="active or disabled.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a webhook; what is not named stays as it is."""
    options = {"url": url, "types": types, "description": description, "state": state}
    said: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    body = read(lambda: WebhookChange(**said))
    with connect() as client:
        changed = client.change_webhook(webhook, body)
    if as_json:
        print_json(changed)
    else:
        print_line(f"{changed.id} {changed.state} {changed.url}")


@app.command("delete")
def delete(webhook: WebhookId, as_json: AsJson = False) -> None:
    """Delete a webhook; what waits is not sent any more."""
    with connect() as client:
        client.delete_webhook(webhook)
    if as_json:
        print_json({"id": webhook, "state": "deleted"})
    else:
        print_line(f"{webhook} deleted")


@app.command("test")
def send_test(webhook: WebhookId, as_json: AsJson = False) -> None:
    """Send a webhook an event that tells nothing."""
    with connect() as client:
        _print_deliveries([client.test_webhook(webhook)], as_json)


@app.command("rotate")
def rotate(webhook: WebhookId, as_json: AsJson = False) -> None:
    """Give a webhook a new secret; for a day the old one signs too."""
    with connect() as client:
        _print_new(client.rotate_webhook_secret(webhook), as_json)


@app.command("deliveries")
def list_deliveries(webhook: WebhookId, as_json: AsJson = False) -> None:
    """List what was and will be sent to a webhook, newest first."""
    with connect() as client:
        _print_deliveries(list(client.deliveries(webhook)), as_json)


@app.command("redeliver")
def redeliver(webhook: WebhookId, delivery: DeliveryId, as_json: AsJson = False) -> None:
    """Send an event once more."""
    with connect() as client:
        _print_deliveries([client.redeliver(webhook, delivery)], as_json)


def _print_new(made: NewWebhook, as_json: bool) -> None:
    if as_json:
        print_json(made)
        return
    note(f"{made.id} tells {made.url}. This is the only time that its secret is shown:")
    print_line(made.secret)


def _print_deliveries(found: list[DeliveryView], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_table(
        ("DELIVERY", "EVENT", "TYPE", "STATE", "ATTEMPTS", "NEXT", "STATUS", "ERROR"),
        [
            (
                d.id, d.event_id, d.type, d.state, str(d.attempts), moment_text(d.next_attempt_at),
                "" if d.status is None else str(d.status), d.error or "",
            )
            for d in found
        ],
    )  # fmt: skip
