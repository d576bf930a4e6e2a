"""More than the quota grants, for a time: asked for with a reason, granted or refused, and ended by itself.

A grant is the request's own row; its bounds are counted by `store.quota_settings`, and at its end no more. A change of
a request is a compare-and-set on its state, made after the tenant's quota rows are locked.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.errors import Invalid, InvalidTransition, NotFound
from domain.ids import TenantId
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU
from store.audit import Change, append
from store.clock import now_us
from store.events import record
from store.ids import new_id
from store.locks import lock_quotas
from store.paging import Position, after
from store.quota_settings import GRANTED, apply_bounds, check_promises
from store.tables import QuotaRequest, Tenant
from store.tenants import below

ASKED, WITHDRAWN, REFUSED, ENDED = "asked", "withdrawn", "refused", "ended"


@dataclass(frozen=True, slots=True)
class Terms:
    """What is asked for, or granted: so many thousandths of a GPU more, until then."""

    limit_milli: int
    guaranteed_milli: int
    until_us: int


def ask(session: Session, tenant_id: TenantId, model: str, terms: Terms, reason: str, key_id: str) -> QuotaRequest:
    """Ask for more than the tenant's quota grants.

    Raises:
        Invalid: nothing is asked for, or it would have ended already.
    """
    if session.get(Tenant, tenant_id) is None:
        raise NotFound("tenant")
    now = now_us(session)
    _check(terms, now)
    request = QuotaRequest(
        id=new_id("ask"),
        tenant_id=tenant_id,
        model=model,
        limit_milli=terms.limit_milli,
        guaranteed_milli=terms.guaranteed_milli,
        reason=reason,
        created_us=now,
        created_by=key_id,
        until_us=terms.until_us,
    )
    session.add(request)
    session.flush()
    _record(session, "quota_requested", request, f"asked for {_amount(request)}")
    return request


def request(session: Session, scope: TenantId | None, request_id: str) -> QuotaRequest:
    """One request of the tenant, or of one below it.

    Raises:
        NotFound: there is none, or it is another's.
    """
    found = session.get(QuotaRequest, request_id)
    if found is None or (scope is not None and found.tenant_id not in below(session, scope)):
        raise NotFound("quota request")
    return found


def requests(
    session: Session, scope: TenantId | None, state: str | None, limit: int, start: Position | None
) -> Sequence[QuotaRequest]:
    """Those of the tenant and of all below it, newest first; one more than `limit` if there are."""
    query = select(QuotaRequest)
    if scope is not None:
        query = query.where(col(QuotaRequest.tenant_id).in_(below(session, scope)))
    if state is not None:
        query = query.where(QuotaRequest.state == state)
    if start is not None:
        query = query.where(after(start, col(QuotaRequest.created_us), col(QuotaRequest.id)))
    order = (col(QuotaRequest.created_us).desc(), col(QuotaRequest.id).desc())
    return session.exec(query.order_by(*order).limit(limit + 1)).all()


def withdraw(session: Session, scope: TenantId | None, request_id: str) -> QuotaRequest:
    """Take a wish back; what was granted already is given back at once.

    Raises:
        InvalidTransition: it was refused, or has ended.
    """
    found = _lock(session, scope, request_id)
    if found.state == WITHDRAWN:
        return found
    if found.state == GRANTED:
        _end(session, found, "given back before its end")
        return found
    _move(session, found, ASKED, WITHDRAWN, "withdraw")
    _record(session, "quota_withdrawn", found, "the wish was taken back")
    return found


def grant(session: Session, request_id: str, said: Terms, answer: str, key_id: str) -> QuotaRequest:
    """Let the tenant have it on these terms, from now until its end. Granting it again changes nothing.

    Raises:
        InvalidTransition: it was withdrawn or refused, has ended, or was granted on other terms.
        Invalid: nothing would be granted, or it would have ended already.
        GuaranteesExceedLimit: more would be guaranteed than there may be.
    """
    found = _lock(session, None, request_id)
    if found.state == GRANTED and said == terms_of(found):
        return found
    now = now_us(session)
    _check(said, now)
    decided = {"decided_us": now, "decided_by": key_id, "answer": answer}
    amounts = {"limit_milli": said.limit_milli, "guaranteed_milli": said.guaranteed_milli, "until_us": said.until_us}
    _move(session, found, ASKED, GRANTED, "grant", **decided, **amounts)
    apply_bounds(session, found.tenant_id)
    if said.guaranteed_milli:
        check_promises(session, found.tenant_id)
    _record(session, "quota_granted", found, f"granted {_amount(found)}")
    return found


def refuse(session: Session, request_id: str, answer: str, key_id: str) -> QuotaRequest:
    """Say no. Refusing it again changes nothing.

    Raises:
        InvalidTransition: it was withdrawn or granted.
    """
    found = _lock(session, None, request_id)
    if found.state == REFUSED:
        return found
    decided = {"decided_us": now_us(session), "decided_by": key_id, "answer": answer}
    _move(session, found, ASKED, REFUSED, "refuse", **decided)
    _record(session, "quota_refused", found, f"refused: {answer}")
    return found


def due(session: Session) -> Sequence[str]:
    """Grants whose time is over and that are still counted, by id."""
    query = select(QuotaRequest.id).where(QuotaRequest.state == GRANTED, col(QuotaRequest.until_us) <= now_us(session))
    return session.exec(query.order_by(QuotaRequest.id)).all()


def end_due(session: Session, request_id: str) -> bool:
    """End a grant whose time is over. False if somebody else did."""
    found = _lock(session, None, request_id)
    if found.state != GRANTED or found.until_us > now_us(session):
        return False
    _end(session, found, "its time was over")
    append(session, Change(found.tenant_id, "quota_grant_ended", target=found.id))
    return True


def terms_of(request: QuotaRequest) -> Terms:
    """What is asked for, or granted."""
    return Terms(request.limit_milli, request.guaranteed_milli, request.until_us)


def _lock(session: Session, scope: TenantId | None, request_id: str) -> QuotaRequest:
    """The request as it stands, with the quota rows that its change would move."""
    seen = request(session, scope, request_id)
    lock_quotas(session, [seen.tenant_id])
    return session.get_one(QuotaRequest, request_id, populate_existing=True)


def _move(session: Session, found: QuotaRequest, before: str, state: str, event: str, **values: Any) -> None:
    moved = session.execute(
        update(QuotaRequest)
        .where(col(QuotaRequest.id) == found.id, col(QuotaRequest.state) == before)
        .values(state=state, **values)
        .execution_options(synchronize_session=False)
    )
    session.refresh(found)
    if moved.rowcount != 1:  # type: ignore[attr-defined]
        raise InvalidTransition("quota request", found.state, event)


def _end(session: Session, found: QuotaRequest, why: str) -> None:
    _move(session, found, GRANTED, ENDED, "end", ended_us=now_us(session))
    apply_bounds(session, found.tenant_id)
    _record(session, "quota_grant_ended", found, f"{_amount(found)} no longer granted: {why}")


def _check(terms: Terms, now: int) -> None:
    if not terms.limit_milli and not terms.guaranteed_milli:
        raise Invalid("nothing more is asked for", "say how many GPUs: limit, guaranteed, or both")
    if terms.until_us <= now:
        raise Invalid("the end is not in the future", "until is in microseconds since the epoch, UTC")


def _amount(request: QuotaRequest) -> str:
    what = "GPUs" if request.model == ANY_MODEL else request.model
    parts = [
        f"{milli // WHOLE_GPU} more {what}{how}"
        for milli, how in ((request.limit_milli, ""), (request.guaranteed_milli, " guaranteed"))
        if milli
    ]
    return " and ".join(parts)


def _record(session: Session, what: str, request: QuotaRequest, text: str) -> None:
    data = {
        "request_id": request.id,
        "model": request.model,
        "limit_milli": request.limit_milli,
        "guaranteed_milli": request.guaranteed_milli,
        "until_us": request.until_us,
    }
    record(session, what, tenant_id=request.tenant_id, text=text, data=data)
