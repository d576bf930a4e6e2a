"""Nodes have a user of their own on Redis"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("node", sa.Column("hints_password_sha256", sa.String(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("node") as batch_op:
        batch_op.drop_column("hints_password_sha256")
