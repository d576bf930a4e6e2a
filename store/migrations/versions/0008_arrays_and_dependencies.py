"""Arrays, dependencies and templates"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def job_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("array_id", sa.String(), nullable=True),
        sa.Column("array_index", sa.Integer(), nullable=True),
        sa.Column("waits_for", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("template_name", sa.String(), nullable=True),
        sa.Column("template_version", sa.Integer(), nullable=True),
    ]


def upgrade() -> None:
    op.create_table(
        "job_array",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("most_running", sa.Integer(), nullable=True),
        sa.Column("running_used", sa.Integer(), nullable=False),
        sa.Column("unfinished", sa.Integer(), nullable=False),
        sa.Column("unsuccessful", sa.Integer(), nullable=False),
        sa.Column("submitted_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "running_used >= 0 AND (most_running IS NULL OR running_used <= most_running)",
            name=op.f("ck_job_array_running_within_bound"),
        ),
        sa.CheckConstraint("unfinished >= 0", name=op.f("ck_job_array_unfinished_not_negative")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_job_array_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_job_array")),
    )
    op.create_index(op.f("ix_job_array_tenant_id"), "job_array", ["tenant_id"])
    op.create_table(
        "job_dependency",
        sa.Column("job_id", sa.String(), nullable=False),
        sa.Column("after_id", sa.String(), nullable=False),
        sa.Column("condition", sa.String(), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["job.id"], name=op.f("fk_job_dependency_job_id_job")),
        sa.PrimaryKeyConstraint("job_id", "after_id", name=op.f("pk_job_dependency")),
    )
    op.create_index(op.f("ix_job_dependency_after_id"), "job_dependency", ["after_id"])
    op.create_table(
        "job_template",
        sa.Column("tenant_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("fields", sa.JSON(), nullable=False),
        sa.Column("is_deleted", sa.Boolean(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenant.id"], name=op.f("fk_job_template_tenant_id_tenant")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_job_template")),
    )
    for column in job_columns():
        op.add_column("job", column)
    op.create_index(op.f("ix_job_array_id"), "job", ["array_id"])


def downgrade() -> None:
    op.drop_index(op.f("ix_job_array_id"), table_name="job")
    for column in reversed(job_columns()):
        op.drop_column("job", column.name)
    op.drop_table("job_template")
    op.drop_table("job_dependency")
    op.drop_table("job_array")
