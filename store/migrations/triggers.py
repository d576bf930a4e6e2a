"""What the database itself refuses, whatever a program above it does.

- a quota's use may not grow beyond its bound (P3); lowering a bound under its use is allowed
- a line of the ledger may not be changed or deleted (P4)
"""

from sqlalchemy import Connection, text

_GROWS = """
    (NEW.gpu_used_milli > OLD.gpu_used_milli
        AND NEW.gpu_limit_milli IS NOT NULL AND NEW.gpu_used_milli > NEW.gpu_limit_milli)
    OR (NEW.running_used > OLD.running_used
        AND NEW.most_running IS NOT NULL AND NEW.running_used > NEW.most_running)
"""

SQLITE = (
    f"""CREATE TRIGGER quota_within_bound BEFORE UPDATE ON quota WHEN {_GROWS}
        BEGIN SELECT RAISE(ABORT, 'quota_within_bound'); END""",
    """CREATE TRIGGER ledger_entry_no_update BEFORE UPDATE ON ledger_entry
        BEGIN SELECT RAISE(ABORT, 'ledger_entry_append_only'); END""",
    """CREATE TRIGGER ledger_entry_no_delete BEFORE DELETE ON ledger_entry
        BEGIN SELECT RAISE(ABORT, 'ledger_entry_append_only'); END""",
)

POSTGRES = (
    """CREATE FUNCTION corral_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation'; END $$""",
    f"""CREATE TRIGGER quota_within_bound BEFORE UPDATE ON quota FOR EACH ROW WHEN ({_GROWS})
        EXECUTE FUNCTION corral_refuse('quota_within_bound')""",
    """CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE ON ledger_entry FOR EACH ROW
        EXECUTE FUNCTION corral_refuse('ledger_entry_append_only')""",
)

DROPS = {
    "sqlite": (
        "DROP TRIGGER quota_within_bound",
        "DROP TRIGGER ledger_entry_no_update",
        "DROP TRIGGER ledger_entry_no_delete",
    ),
    "postgresql": (
        "DROP TRIGGER quota_within_bound ON quota",
        "DROP TRIGGER ledger_entry_append_only ON ledger_entry",
        "DROP FUNCTION corral_refuse",
    ),
}


def create_triggers(connection: Connection) -> None:
    """Make the triggers in this engine's words."""
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRES:
        connection.execute(text(statement))


def drop_triggers(connection: Connection) -> None:
    """Undo `create_triggers`."""
    for statement in DROPS[connection.dialect.name]:
        connection.execute(text(statement))


def create_ledger_triggers(connection: Connection) -> None:
    """Make those of the ledger alone, after its table was made anew."""
    for statement in SQLITE if connection.dialect.name == "sqlite" else POSTGRES:
        if statement.startswith("CREATE TRIGGER ledger_entry"):
            connection.execute(text(statement))


def drop_ledger_triggers(connection: Connection) -> None:
    """Undo `create_ledger_triggers`."""
    for statement in DROPS[connection.dialect.name]:
        if statement.startswith("DROP TRIGGER ledger_entry"):
            connection.execute(text(statement))
