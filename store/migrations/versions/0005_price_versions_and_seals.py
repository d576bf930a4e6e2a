"""Price versions, adjustments and seals"""

import sqlalchemy as sa
from alembic import op

from store.ids import new_id
from store.migrations.triggers import create_ledger_triggers, drop_ledger_triggers

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

ANY_PRIORITY = -1
NEW_IN_ENTRY = {
    "rate_milli": sa.Integer,
    "reason": sa.String,
    "by_key_id": sa.String,
    "signing_key_id": sa.String,
    "signature": sa.String,
}
OFTEN_ABSENT = ("job_id", "attempt_id", "allocation_id")
"""What an adjustment is not about."""


def upgrade() -> None:
    _make_price_versions()
    with op.batch_alter_table("allocation", schema=None) as batch_op:
        batch_op.add_column(sa.Column("rates", sa.JSON(), nullable=True))
    drop_ledger_triggers(op.get_bind())  # a table that is made anew on SQLite loses them
    with op.batch_alter_table("ledger_entry", schema=None) as batch_op:
        for name in OFTEN_ABSENT:
            batch_op.alter_column(name, existing_type=sa.String(), nullable=True)
        for name, kind in NEW_IN_ENTRY.items():
            batch_op.add_column(sa.Column(name, kind(), nullable=True))
    create_ledger_triggers(op.get_bind())
    _make_seals()


def downgrade() -> None:
    op.drop_table("seal_head")
    op.drop_table("seal")
    drop_ledger_triggers(op.get_bind())
    with op.batch_alter_table("ledger_entry", schema=None) as batch_op:
        for name in NEW_IN_ENTRY:
            batch_op.drop_column(name)
        for name in OFTEN_ABSENT:
            batch_op.alter_column(name, existing_type=sa.String(), nullable=False)
    create_ledger_triggers(op.get_bind())
    with op.batch_alter_table("allocation", schema=None) as batch_op:
        batch_op.drop_column("rates")
    op.drop_table("price")
    op.create_table(
        "price",
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("micro_per_gpu_hour", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("model", name=op.f("pk_price")),
    )


def _make_price_versions() -> None:
    """Each price becomes the first version of its model, in force since ever."""
    connection = op.get_bind()
    earlier = connection.execute(sa.text("SELECT model, micro_per_gpu_hour FROM price ORDER BY model")).all()
    op.drop_table("price")
    made = op.create_table(
        "price",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("valid_from_us", sa.BigInteger(), nullable=False),
        sa.Column("micro_per_gpu_hour", sa.BigInteger(), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price")),
        sa.UniqueConstraint("model", "priority", "valid_from_us", name="uq_price_model_priority_from"),
    )
    for model, micro_per_gpu_hour in earlier:
        version = {"id": new_id("prc"), "model": model, "priority": ANY_PRIORITY, "valid_from_us": 0}
        connection.execute(
            sa.insert(made),
            version | {"micro_per_gpu_hour": micro_per_gpu_hour, "rates": {}, "created_us": 0},
        )


def _make_seals() -> None:
    op.create_table(
        "seal",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("document", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("stored_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_seal")),
        sa.UniqueConstraint("until_us", name="uq_seal_until_us"),
    )
    op.create_table(
        "seal_head",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("links", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["number"], ["seal.number"], name=op.f("fk_seal_head_number_seal")),
        sa.PrimaryKeyConstraint("number", "chain", name=op.f("pk_seal_head")),
    )
