"""`corral members`: the people of the own tenant, or of one below it; an admin's: of the platform."""

from typing import Annotated, Any

import typer
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_json, print_line, print_table
from corral.identity import MemberRole, MemberSpec, MemberView

MemberId = Annotated[str, typer.Argument(metavar="MEMBER", help="The member's id.")]
RoleOption = Annotated[str, typer.Option(help="viewer, member, tenant_admin or platform_admin.")]

app = typer.Typer(no_args_is_help=True, help="People of the own tenant.")


@app.command("list")
def list_members(tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """List members, and who is invited."""
    with connect() as client:
        found = list(client.members(tenant_id=maybe_tenant_id(client, tenant)))
    if as_json:
        print_json(found)
        return
    print_table(
        ("MEMBER", "NAME", "ADDRESS", "ROLE", "STATE", "BY"),
        [(m.id, m.name, m.email or "", m.role, m.state, m.source) for m in found],
    )


@app.command("invite")
def invite_member(
    email: Annotated[str, typer.Argument(metavar="ADDRESS", help="The address that their provider vouches for.")],
    role: RoleOption = "member",
    name: Annotated[str | None, typer.Option(help="A line for people.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Give a person a place; it waits for their first login."""
    said: dict[str, Any] = {"email": email, "role": role, **({} if name is None else {"name": name})}
    spec = read(lambda: MemberSpec(**said))
    with connect() as client:
        _print(client.invite_member(spec, tenant_id=maybe_tenant_id(client, tenant)), as_json)


@app.command("set-role")
def set_role(member: MemberId, role: Annotated[str, typer.Argument(metavar="ROLE")], as_json: AsJson = False) -> None:
    """Give a member another role; their keys do no more than it allows, at once."""
    said: dict[str, Any] = {"role": role}
    spec = read(lambda: MemberRole(**said))
    with connect() as client:
        _print(client.set_member_role(member, spec.role), as_json)


@app.command("delete")
def remove_member(member: MemberId, as_json: AsJson = False) -> None:
    """End a member's place, keys and logins, at once."""
    with connect() as client:
        client.remove_member(member)
    if as_json:
        print_json({"id": member, "state": "removed"})
    else:
        print_line(f"{member} removed")


def _print(view: MemberView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id} {view.name} {view.role} {view.state}")
