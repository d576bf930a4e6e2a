"""The audit, as it is shown."""

from typing import Any

from corral.audit import AuditChainView, AuditEntryView

from store.audit_check import ChainCheck


def audit_entry_view(row: Any) -> AuditEntryView:
    """An entry, whole: its hash is made of every field."""
    return AuditEntryView.model_validate(row._mapping)


def audit_chain_view(check: ChainCheck) -> AuditChainView:
    """What was found in a chain."""
    flaw = check.flaw
    return AuditChainView(
        chain=check.chain,
        length=check.length,
        head=check.head,
        checked=check.upto.count,
        is_sound=flaw is None,
        first_bad_seq=None if flaw is None else flaw.seq,
        problem="" if flaw is None else flaw.problem,
    )
