"""Images as nodes found them, blocked digests, signatures, and what nodes should pull"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("image", sa.Column("is_restricted", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("node", sa.Column("images", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("attempt", sa.Column("pull", sa.JSON(), nullable=True))
    op.create_table(
        "image_tenant",
        sa.Column("image_name", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["image_name"], ["image.name"], name=op.f("fk_image_tenant_image_name_image")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_image_tenant_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("image_name", "tenant_id", name=op.f("pk_image_tenant")),
    )
    op.create_table(
        "image_check",
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("findings", sa.JSON(), nullable=False),
        sa.Column("refusals", sa.JSON(), nullable=False),
        sa.Column("cuda", sa.String(), nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("rule_id", sa.String(), nullable=True),
        sa.Column("signed_by", sa.String(), nullable=True),
        sa.Column("trouble", sa.String(), nullable=True),
        sa.Column("asked_node_id", sa.String(), nullable=True),
        sa.Column("asked_us", sa.BigInteger(), nullable=False),
        sa.Column("node_id", sa.String(), nullable=True),
        sa.Column("checked_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("reference", name=op.f("pk_image_check")),
    )
    op.create_table(
        "image_block",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("blocked_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_image_block")),
    )
    op.create_table(
        "image_wish",
        sa.Column("node_id", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_image_wish_node_id_node")),
        sa.PrimaryKeyConstraint("node_id", "reference", name=op.f("pk_image_wish")),
    )
    op.create_table(
        "signature_rule",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("pattern", sa.String(), nullable=False),
        sa.Column("key_pem", sa.String(), nullable=True),
        sa.Column("identity", sa.String(), nullable=True),
        sa.Column("issuer", sa.String(), nullable=True),
        sa.Column("is_logged", sa.Boolean(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signature_rule")),
        sa.UniqueConstraint("pattern", name=op.f("uq_signature_rule_pattern")),
    )


def downgrade() -> None:
    for table in ("signature_rule", "image_wish", "image_block", "image_check", "image_tenant"):
        op.drop_table(table)
    op.drop_column("attempt", "pull")
    op.drop_column("node", "images")
    op.drop_column("image", "is_restricted")
