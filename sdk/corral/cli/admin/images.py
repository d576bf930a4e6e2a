"""`corral admin images`."""

from pathlib import Path
from typing import Annotated

import typer
from corral.cli.catalogue import print_image, print_images
from corral.cli.options import AsJson, connect, read, tenant_id
from corral.cli.output import print_json, print_line, print_table
from corral.images import ImageBlockSpec, ImageSpec, ImageTenants, ImageView, SignatureRuleSpec

ImageName = Annotated[str, typer.Argument(metavar="NAME", help="The name that jobs use.")]
Tenants = Annotated[list[str] | None, typer.Option("--tenant", help="Who may use it, and all below; may be repeated.")]

app = typer.Typer(no_args_is_help=True, help="The catalogue of images.")
rules = typer.Typer(no_args_is_help=True, help="Whose signature is asked for.")
app.add_typer(rules, name="signatures")


@app.command("list")
def list_images(as_json: AsJson = False) -> None:
    """List the catalogue."""
    with connect() as client:
        print_images(list(client.images()), as_json)


@app.command("show")
def show_image(name: ImageName, as_json: AsJson = False) -> None:
    """Show an image, what a node found in it, and where it could run."""
    with connect() as client:
        print_image(client.image(name), as_json)


@app.command("admit")
def admit_image(
    name: ImageName,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="REPOSITORY@sha256:…, an image's id in the engine (sha256:…), or host; never a tag.",
        ),
    ],
    min_cuda: Annotated[str | None, typer.Option(help='CUDA inside, such as "12.8"; else what it says.')] = None,
    description: Annotated[str | None, typer.Option(help="A line for people.")] = None,
    tenant: Tenants = None,
    as_json: AsJson = False,
) -> None:
    """Admit an image. A node that could run it looks at it then."""
    with connect() as client:
        allowed = [tenant_id(client, each) for each in tenant] if tenant else None
        spec = read(
            lambda: ImageSpec(
                name=name, reference=reference, min_cuda=min_cuda, description=description, tenants=allowed
            )
        )
        _print(client.add_image(spec), as_json)


@app.command("check")
def check_image(name: ImageName, as_json: AsJson = False) -> None:
    """Let a node look at an image once more."""
    with connect() as client:
        _print(client.check_image(name), as_json)


@app.command("retire")
def retire_image(name: ImageName, as_json: AsJson = False) -> None:
    """Let no new job name an image."""
    with connect() as client:
        _print(client.retire_image(name), as_json)


@app.command("block")
def block_image(
    name: ImageName,
    reason: Annotated[str, typer.Option(help="For those whose jobs wait.")],
    stop: Annotated[bool, typer.Option("--stop", help="Stop what runs, too; it waits with the rest.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let nothing of an image's digest start any more, under whatever name."""
    spec = read(lambda: ImageBlockSpec(reason=reason, stop=stop))
    with connect() as client:
        _print(client.block_image(name, spec), as_json)


@app.command("unblock")
def unblock_image(name: ImageName, as_json: AsJson = False) -> None:
    """Let an image's digest start again."""
    with connect() as client:
        _print(client.unblock_image(name), as_json)


@app.command("allow")
def allow_image(
    name: ImageName,
    tenant: Tenants = None,
    everybody: Annotated[bool, typer.Option("--everybody", help="Every tenant.")] = False,
    as_json: AsJson = False,
) -> None:
    """Set who may see and use an image: the tenants named and all below them, or everybody."""
    if bool(tenant) == everybody:
        raise typer.BadParameter("name tenants with --tenant, or say --everybody")
    with connect() as client:
        allowed = None if everybody else [tenant_id(client, each) for each in tenant or []]
        _print(client.allow_image(name, ImageTenants(tenants=allowed)), as_json)


@rules.command("list")
def list_rules(as_json: AsJson = False) -> None:
    """List the rules."""
    with connect() as client:
        found = list(client.signature_rules())
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "REPOSITORIES", "SIGNED BY", "LOGGED"),
        [(r.id, r.pattern, r.identity or "a key", "yes" if r.transparency_log else "no") for r in found],
    )


@rules.command("require")
def require_signature(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Of repositories: registry.example/team/*")],
    key: Annotated[Path | None, typer.Option(help="The signer's public key, PEM.")] = None,
    identity: Annotated[str | None, typer.Option(help="Whom a keyless signature must name.")] = None,
    issuer: Annotated[str | None, typer.Option(help="Who must have vouched for that.")] = None,
    no_log: Annotated[bool, typer.Option("--no-log", help="It need not be in a transparency log.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let images of these repositories run only when they are signed."""
    key_pem = None if key is None else key.read_text()
    spec = read(
        lambda: SignatureRuleSpec(
            pattern=pattern, key_pem=key_pem, identity=identity, issuer=issuer, transparency_log=not no_log
        )
    )
    with connect() as client:
        rule = client.add_signature_rule(spec)
    if as_json:
        print_json(rule)
    else:
        print_line(f"{rule.id} {rule.pattern}")


@rules.command("delete")
def forget_rule(
    rule_id: Annotated[str, typer.Argument(metavar="RULE", help="The rule's id.")], as_json: AsJson = False
) -> None:
    """Delete a rule: its images need no signature any more."""
    with connect() as client:
        client.remove_signature_rule(rule_id)
    if as_json:
        print_json({"id": rule_id, "state": "deleted"})
    else:
        print_line(f"{rule_id} deleted")


def _print(view: ImageView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.name} {view.state} {view.reference}")
