"""Purses: what may be spent, is held and is spent"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

GROWS = "NEW.held > OLD.held AND NEW.held + NEW.spent > NEW.bound"
"""Only what is held may not grow beyond the bound: what was used must always be written down, and a bound may fall."""


def upgrade() -> None:
    op.create_table(
        "purse",
        sa.Column("owner_id", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("bound", sa.BigInteger(), nullable=False),
        sa.Column("held", sa.BigInteger(), nullable=False),
        sa.Column("spent", sa.BigInteger(), nullable=False),
        sa.Column("before", sa.BigInteger(), nullable=False),
        sa.Column("warned", sa.Integer(), nullable=False),
        sa.CheckConstraint("held >= 0", name=op.f("ck_purse_held_not_negative")),
        sa.CheckConstraint("bound >= 0", name=op.f("ck_purse_bound_not_negative")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_purse_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("owner_id", "unit", "period", name=op.f("pk_purse")),
    )
    op.create_index("ix_purse_tenant_id", "purse", ["tenant_id"], unique=False)
    op.create_table(
        "hold",
        sa.Column("attempt_id", sa.String(), nullable=False),
        sa.Column("owner_id", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount >= 0", name=op.f("ck_hold_amount_not_negative")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.id"], name=op.f("fk_hold_attempt_id_attempt")),
        sa.PrimaryKeyConstraint("attempt_id", "owner_id", "unit", "period", name=op.f("pk_hold")),
    )
    op.create_index("ix_hold_purse", "hold", ["owner_id", "unit", "period"], unique=False)
    row = "WHEN" if op.get_bind().dialect.name == "sqlite" else "FOR EACH ROW WHEN"
    refuse = (
        "BEGIN SELECT RAISE(ABORT, 'purse_within_bound'); END"
        if op.get_bind().dialect.name == "sqlite"
        else "EXECUTE FUNCTION corral_refuse('purse_within_bound')"
    )
    op.execute(f"CREATE TRIGGER purse_within_bound BEFORE UPDATE ON purse {row} ({GROWS}) {refuse}")


def downgrade() -> None:
    op.drop_table("hold")
    op.drop_table("purse")
