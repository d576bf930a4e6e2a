"""Members, roles and keys with less than their maker's rights"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ROLES = {"admin": "platform_admin", "tenant": "tenant_admin"}
KNOWN = sa.text("state != 'removed'")
ADMIN = sa.text("state != 'removed' AND tenant_id IS NULL")


def upgrade() -> None:
    _create_members()
    _widen_keys()
    _create_logins()
    with op.batch_alter_table("job") as job:
        job.add_column(sa.Column("key_id", sa.String(), nullable=True))
        job.add_column(sa.Column("member_id", sa.String(), nullable=True))
        job.create_index(op.f("ix_job_key_id"), ["key_id"])
    with op.batch_alter_table("node") as node:
        node.add_column(sa.Column("next_token_sha256", sa.String(), nullable=True))
        node.add_column(sa.Column("token_made_us", sa.BigInteger(), nullable=True))
        node.add_column(sa.Column("revoked_us", sa.BigInteger(), nullable=True))
        node.create_unique_constraint(op.f("uq_node_next_token_sha256"), ["next_token_sha256"])
    with op.batch_alter_table("join_token") as token:
        token.add_column(sa.Column("revoked_us", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("join_token") as token:
        token.drop_column("revoked_us")
    with op.batch_alter_table("node") as node:
        node.drop_constraint(op.f("uq_node_next_token_sha256"), type_="unique")
        for column in ("next_token_sha256", "token_made_us", "revoked_us"):
            node.drop_column(column)
    with op.batch_alter_table("job") as job:
        job.drop_index(op.f("ix_job_key_id"))
        job.drop_column("member_id")
        job.drop_column("key_id")
    op.drop_table("login")
    with op.batch_alter_table("api_key") as key:
        for name in ("parent_key_id_api_key", "member_id_member"):
            key.drop_constraint(op.f(f"fk_api_key_{name}"), type_="foreignkey")
        for column in ("member_id", "parent_key_id"):
            key.drop_index(op.f(f"ix_api_key_{column}"))
        for column in ("member_id", "parent_key_id", "scopes", "images", "levels", "own_jobs_only"):
            key.drop_column(column)
    for old, new in ROLES.items():
        _rename_role(new, old)
    op.drop_table("member")


def _create_members() -> None:
    op.create_table(
        "member",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("subject", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("removed_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_member_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_member")),
    )
    op.create_index(op.f("ix_member_tenant_id"), "member", ["tenant_id"])
    op.create_index(op.f("ix_member_email"), "member", ["email"])
    for name, columns, where in (
        ("uq_member_person", ["issuer", "subject", "tenant_id"], KNOWN),
        ("uq_member_admin", ["issuer", "subject"], ADMIN),
    ):
        op.create_index(name, "member", columns, unique=True, sqlite_where=where, postgresql_where=where)


def _widen_keys() -> None:
    with op.batch_alter_table("api_key") as key:
        key.add_column(sa.Column("member_id", sa.String(), nullable=True))
        key.add_column(sa.Column("parent_key_id", sa.String(), nullable=True))
        key.add_column(sa.Column("scopes", sa.JSON(), nullable=True))
        key.add_column(sa.Column("images", sa.JSON(), nullable=True))
        key.add_column(sa.Column("levels", sa.JSON(), nullable=True))
        key.add_column(sa.Column("own_jobs_only", sa.Boolean(), nullable=False, server_default=sa.text("false")))
        key.create_foreign_key(op.f("fk_api_key_member_id_member"), "member", ["member_id"], ["id"])
        key.create_foreign_key(op.f("fk_api_key_parent_key_id_api_key"), "api_key", ["parent_key_id"], ["id"])
        key.create_index(op.f("ix_api_key_member_id"), ["member_id"])
        key.create_index(op.f("ix_api_key_parent_key_id"), ["parent_key_id"])
    for old, new in ROLES.items():
        _rename_role(old, new)


def _rename_role(old: str, new: str) -> None:
    op.execute(sa.text("UPDATE api_key SET role = :new WHERE role = :old").bindparams(old=old, new=new))


def _create_logins() -> None:
    op.create_table(
        "login",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("state_sha256", sa.String(), nullable=False),
        sa.Column("browser_sha256", sa.String(), nullable=False),
        sa.Column("nonce", sa.String(), nullable=False),
        sa.Column("verifier", sa.String(), nullable=False),
        sa.Column("tenant", sa.String(), nullable=True),
        sa.Column("challenge", sa.String(), nullable=True),
        sa.Column("code_sha256", sa.String(), nullable=True),
        sa.Column("member_id", sa.String(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.Column("returned_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["member_id"], ["member.id"], name=op.f("fk_login_member_id_member")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_login")),
        sa.UniqueConstraint("state_sha256", name=op.f("uq_login_state_sha256")),
        sa.UniqueConstraint("code_sha256", name=op.f("uq_login_code_sha256")),
    )
