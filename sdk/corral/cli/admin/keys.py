"""`corral admin keys`: the keys of any tenant."""

import typer
from corral.cli.keys import KeyId, KeyName, KeyRole, ValidFor, key_spec, print_keys, print_new_key, print_revoked
from corral.cli.options import AsJson, TenantRef, connect, tenant_id

app = typer.Typer(no_args_is_help=True, help="Keys of a tenant.")


@app.command("list")
def list_keys(tenant: TenantRef, as_json: AsJson = False) -> None:
    """List a tenant's keys, without their secrets."""
    with connect() as client:
        print_keys(list(client.tenant_keys(tenant_id(client, tenant))), as_json)


@app.command("create")
def create_key(
    tenant: TenantRef,
    name: KeyName = "key",
    valid_for: ValidFor = None,
    role: KeyRole = None,
    as_json: AsJson = False,
) -> None:
    """Make a key for a tenant; it is shown this once."""
    spec = key_spec(name, valid_for, role, {})
    with connect() as client:
        print_new_key(client.create_tenant_key(tenant_id(client, tenant), spec), as_json)


@app.command("revoke")
def revoke_key(tenant: TenantRef, key: KeyId, as_json: AsJson = False) -> None:
    """End a tenant's key, at once."""
    with connect() as client:
        client.revoke_tenant_key(tenant_id(client, tenant), key)
    print_revoked(key, as_json)
