"""What somebody does to the audit who may write to the database, and stops at no trigger."""

from typing import Any

from sqlalchemy import Connection, select, text, update

from domain.ledger import GENESIS, entry_hash
from store.base import table_of
from store.tables import AuditChain, AuditEntry

_ENTRY, _CHAIN = table_of(AuditEntry), table_of(AuditChain)
_TRIGGERS = {
    "sqlite": ("audit_entry_no_update", "audit_entry_no_delete", "audit_chain_grows", "audit_chain_stays"),
    "postgresql": (
        "audit_entry_append_only ON audit_entry",
        "audit_chain_grows ON audit_chain",
        "audit_chain_stays ON audit_chain",
    ),
}


def drop_audit_triggers(connection: Connection) -> None:
    """Nothing keeps the audit as it is any more."""
    for name in _TRIGGERS[connection.dialect.name]:
        connection.execute(text(f"DROP TRIGGER IF EXISTS {name}"))


def rewrite_chain(connection: Connection, chain: str, **values: Any) -> None:
    """Change a chain's first entry, and make every hash anew, so that the chain agrees with itself."""
    drop_audit_triggers(connection)
    rows = connection.execute(select(_ENTRY).where(_ENTRY.c.chain == chain).order_by(_ENTRY.c.seq)).mappings().all()
    before = GENESIS
    for row in rows:
        changed = {**row, **(values if row["seq"] == 1 else {}), "prev_hash": before}
        fields = {name: value for name, value in changed.items() if name not in ("hash", "prev_hash")}
        changed["hash"] = before = entry_hash(before, fields)
        connection.execute(update(_ENTRY).where(_ENTRY.c.id == row["id"]).values(**changed))
    connection.execute(update(_CHAIN).where(_CHAIN.c.chain == chain).values(head=before))
