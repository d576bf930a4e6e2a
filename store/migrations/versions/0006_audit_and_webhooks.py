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
    for statement in TRIGGERS[op.get_bind().dialect.name]:
        op.execute(statement)


def downgrade() -> None:
    op.drop_table("audit_entry")
    op.drop_table("audit_chain")
