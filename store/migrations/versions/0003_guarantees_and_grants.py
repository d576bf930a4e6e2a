"""Guarantees, lending, and grants that end"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

GROWS_BEFORE = """
    (NEW.gpu_used_milli > OLD.gpu_used_milli
        AND NEW.gpu_limit_milli IS NOT NULL AND NEW.gpu_used_milli > NEW.gpu_limit_milli)
    OR (NEW.running_used > OLD.running_used
        AND NEW.most_running IS NOT NULL AND NEW.running_used > NEW.most_running)
"""
GROWS = """
    (NEW.gpu_used_milli > OLD.gpu_used_milli AND NEW.gpu_ceiling_milli IS NOT NULL
        AND (NEW.gpu_used_milli > NEW.gpu_ceiling_milli
            OR (NEW.gpu_used_milli + NEW.gpu_reserved_milli > OLD.gpu_used_milli + OLD.gpu_reserved_milli
                AND NEW.gpu_used_milli + NEW.gpu_reserved_milli > NEW.gpu_ceiling_milli)))
    OR (NEW.running_used > OLD.running_used
        AND NEW.most_running IS NOT NULL AND NEW.running_used > NEW.most_running)
"""
COUNTS = ("gpu_guaranteed_milli", "gpu_promised_milli", "gpu_kept_milli", "gpu_reserved_milli", "version")
MAYBE = ("gpu_borrowable_milli", "gpu_lendable_milli", "gpu_ceiling_milli", "grants_until_us")


def upgrade() -> None:
    _drop_trigger()
    with op.batch_alter_table("quota", schema=None) as batch_op:
        batch_op.add_column(sa.Column("is_set", sa.Boolean(), nullable=False, server_default="0"))
        for name in COUNTS:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
        for name in MAYBE:
            batch_op.add_column(sa.Column(name, sa.BigInteger(), nullable=True))
    quota = sa.table(
        "quota",
        sa.column("model"),
        sa.column("is_set", sa.Boolean()),
        sa.column("gpu_limit_milli"),
        sa.column("gpu_ceiling_milli"),
    )
    is_set = sa.or_(quota.c.model == "*", quota.c.gpu_limit_milli.is_not(None))
    op.execute(quota.update().values(gpu_ceiling_milli=quota.c.gpu_limit_milli, is_set=is_set))
    _create_trigger(GROWS)
    op.create_table(
        "quota_request",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("limit_milli", sa.BigInteger(), nullable=False),
        sa.Column("guaranteed_milli", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("decided_us", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.String(), nullable=True),
        sa.Column("answer", sa.String(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_quota_request_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quota_request")),
    )
    with op.batch_alter_table("quota_request", schema=None) as batch_op:
        batch_op.create_index("ix_quota_request_tenant", ["tenant_id", "created_us"], unique=False)
        batch_op.create_index("ix_quota_request_state", ["state", "until_us"], unique=False)


def downgrade() -> None:
    op.drop_table("quota_request")
    _drop_trigger()
    with op.batch_alter_table("quota", schema=None) as batch_op:
        for name in ("is_set", *COUNTS, *MAYBE):
            batch_op.drop_column(name)
    _create_trigger(GROWS_BEFORE)


def _create_trigger(grows: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        refuse = f"WHEN {grows} BEGIN SELECT RAISE(ABORT, 'quota_within_bound'); END"
    else:
        refuse = f"FOR EACH ROW WHEN ({grows}) EXECUTE FUNCTION corral_refuse('quota_within_bound')"
    op.execute(f"CREATE TRIGGER quota_within_bound BEFORE UPDATE ON quota {refuse}")


def _drop_trigger() -> None:
    on = "" if op.get_bind().dialect.name == "sqlite" else " ON quota"
    op.execute(f"DROP TRIGGER quota_within_bound{on}")
