"""The audit chain and webhooks"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

SHRINKS = "NEW.length < OLD.length"
TRIGGERS = {
    "sqlite": (
        """CREATE TRIGGER audit_entry_no_update BEFORE UPDATE ON audit_entry
            BEGIN SELECT RAISE(ABORT, 'audit_entry_append_only'); END""",
        """CREATE TRIGGER audit_entry_no_delete BEFORE DELETE ON audit_entry
            BEGIN SELECT RAISE(ABORT, 'audit_entry_append_only'); END""",
        f"""CREATE TRIGGER audit_chain_grows BEFORE UPDATE ON audit_chain WHEN {SHRINKS}
            BEGIN SELECT RAISE(ABORT, 'audit_chain_grows'); END""",
        """CREATE TRIGGER audit_chain_stays BEFORE DELETE ON audit_chain
            BEGIN SELECT RAISE(ABORT, 'audit_chain_grows'); END""",
    ),
    "postgresql": (
        """CREATE TRIGGER audit_entry_append_only BEFORE UPDATE OR DELETE ON audit_entry FOR EACH ROW
            EXECUTE FUNCTION corral_refuse('audit_entry_append_only')""",
        f"""CREATE TRIGGER audit_chain_grows BEFORE UPDATE ON audit_chain FOR EACH ROW WHEN ({SHRINKS})
            EXECUTE FUNCTION corral_refuse('audit_chain_grows')""",
        """CREATE TRIGGER audit_chain_stays BEFORE DELETE ON audit_chain FOR EACH ROW
            EXECUTE FUNCTION corral_refuse('audit_chain_grows')""",
    ),
}


def upgrade() -> None:
    op.create_table(
        "audit_chain",
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_audit_chain")),
    )
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("member_id", sa.String(), nullable=True),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("what", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("changes", sa.String(), nullable=False),
        sa.Column("prev_hash", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_entry")),
    )
    op.create_index("uq_audit_entry_chain", "audit_entry", ["chain", "seq"], unique=True)
    op.create_table(
        "webhook",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("types", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("wrapped_key", sa.String(), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("failing_since_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_webhook_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook")),
    )
    op.create_index(op.f("ix_webhook_tenant_id"), "webhook", ["tenant_id"], unique=False)
    op.create_table(
        "delivery",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("webhook_id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_us", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhook.id"], name=op.f("fk_delivery_webhook_id_webhook")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    op.create_index("ix_delivery_due", "delivery", ["state", "next_attempt_us"], unique=False)
    op.create_index("ix_delivery_webhook", "delivery", ["webhook_id", "id"], unique=False)
    for statement in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("delivery")
    op.drop_table("webhook")
    op.drop_table("audit_entry")
    op.drop_table("audit_chain")
