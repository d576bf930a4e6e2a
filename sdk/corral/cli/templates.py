"""`corral templates`: parts of jobs that the tenant keeps."""

import json
from pathlib import Path
from typing import Annotated

import typer
from corral.batches import TemplateSpec
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_json, print_line, print_table

TemplateName = Annotated[str, typer.Argument(metavar="NAME", help="The template's name.")]

app = typer.Typer(no_args_is_help=True, help="Parts of jobs that the tenant keeps.")


@app.command("list")
def list_templates(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List templates."""
    with connect() as client:
        found = list(client.templates(tenant_id=maybe_tenant_id(client, tenant)))
    if as_json:
        print_json(found)
    else:
        rows = [(each.name, str(each.version), moment_text(each.changed_at)) for each in found]
        print_table(("NAME", "VERSION", "CHANGED"), rows)


@app.command("show")
def show_template(name: TemplateName, tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """Show what a template holds, as `corral templates set` takes it."""
    with connect() as client:
        view = client.template(name, tenant_id=maybe_tenant_id(client, tenant))
    print_json(view if as_json else view.job)


@app.command("set")
def set_template(
    name: TemplateName,
    file: Annotated[Path, typer.Argument(help="A JSON file with a part of a job.")],
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Keep a part of a job under a name. Use it with `corral submit --template NAME`."""
    try:
        fields = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="FILE") from error
    spec = read(lambda: TemplateSpec(job=fields))
    with connect() as client:
        view = client.set_template(name, spec, tenant_id=maybe_tenant_id(client, tenant))
    print_json(view) if as_json else print_line(f"{view.name} version {view.version}")


@app.command("delete")
def delete_template(name: TemplateName, tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """Delete a template; jobs that were made from it stay as they are."""
    with connect() as client:
        client.delete_template(name, tenant_id=maybe_tenant_id(client, tenant))
    print_json({"name": name, "state": "deleted"}) if as_json else print_line(f"{name} deleted")
