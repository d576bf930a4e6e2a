"""Requests about the audit."""

from corral.audit import AuditChainView, AuditEntryView
from corral.call import PAGE_LIMIT, Call, get, place
from corral.contract import Page


def audit(
    *,
    actor: str | None = None,
    what: str | None = None,
    target: str | None = None,
    since: int | None = None,
    until: int | None = None,
    tenant_id: str | None = None,
) -> Call[Page[AuditEntryView]]:
    """Who changed what, newest first; times in microseconds since the epoch."""
    return get(
        place("audit"),
        Page[AuditEntryView],
        limit=PAGE_LIMIT,
        actor=actor,
        what=what,
        target=target,
        since=since,
        until=until,
        tenant_id=tenant_id,
    )


def verify_audit(*, tenant_id: str | None = None) -> Call[Page[AuditChainView]]:
    """Whether the audit's chains are sound, and where each first is not; a long one comes in several pieces."""
    return get(place("audit", "verify"), Page[AuditChainView], limit=PAGE_LIMIT, tenant_id=tenant_id)
