"""Reading a quota as it stands, with its use."""

from collections.abc import Sequence

from sqlmodel import Session, select

from store.tables import Quota


def quota_rows(session: Session, tenant_id: str) -> Sequence[Quota]:
    """The tenant's rows: one for each model that was limited or used, and `*`."""
    return session.exec(select(Quota).where(Quota.tenant_id == tenant_id)).all()
