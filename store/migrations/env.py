"""Alembic's entry: runs the migrations over the connection that `store.migrate` hands over."""

from alembic import context

from store.tables import Tenant

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    target_metadata=Tenant.metadata,
    render_as_batch=True,
    transactional_ddl=True,  # all or nothing on SQLite too, which Alembic doesn't assume
)
with context.begin_transaction():
    context.run_migrations()
