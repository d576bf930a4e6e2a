"""One creation for one Idempotency-Key, however often and however much at once it is asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.dialects.postgresql import insert as postgres_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from domain.errors import CorralError, KeyReused, ShownOnce
from store.base import table_of
from store.clock import now_us
from store.statements import Query, Rows, take_steps
from store.tables import Idempotency

KEPT_US = 7 * 86_400 * 10**6
"""For so long a repeated request gets its first answer; then the sweeper removes it, and the key is free again."""
SECRET = b""
"""Kept in the place of an answer that held a secret."""


_KEYS = table_of(Idempotency)
_EARLIER = select(_KEYS).where(
    _KEYS.c.caller.in_(bindparam("callers", expanding=True)), _KEYS.c.key.in_(bindparam("keys", expanding=True))
)


class KeyTaken(Exception):
    """Another transaction took an idempotency key first. Tried again, its answer is found."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A creating request, as far as it decides whether two are the same."""

    caller: str
    """Tenant or `admin`: keys of two tenants never meet."""
    key: str
    route: str
    body_sha256: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was answered, to be answered again."""

    status: int
    body: bytes


def earlier_answer(session: Session, asked: Asked) -> Answer | None:
    """The answer that the same request got, or None: then this one is the first, and `keep` must follow.

    The key is taken by inserting its row, so that a second request waits here until the first has committed (and then
    gets its answer), or has failed (and then is the first). All in the transaction of what is created.

    Raises:
        KeyReused: the key was used with another request.
        ShownOnce: the answer held a secret, which is not kept.
    """
    insert = postgres_insert if session.get_bind().dialect.name == "postgresql" else sqlite_insert
    taken = session.execute(
        insert(Idempotency)
        .values(
            caller=asked.caller,
            key=asked.key,
            route=asked.route,
            body_sha256=asked.body_sha256,
            status=0,
            answer=SECRET,
            created_us=now_us(session),
        )
        .on_conflict_do_nothing()
        .returning(col(Idempotency.key))
    ).first()
    if taken is not None:
        return None
    return _answer(session.get_one(Idempotency, (asked.caller, asked.key), populate_existing=True), asked)


def keep(session: Session, asked: Asked, answer: Answer) -> None:
    """Keep the answer with what it tells of; `SECRET` as its body if it holds one."""
    session.execute(
        update(Idempotency)
        .where(col(Idempotency.caller) == asked.caller, col(Idempotency.key) == asked.key)
        .values(status=answer.status, answer=answer.body)
    )


def earlier_answers(session: Session, asked: Iterable[Asked]) -> dict[Asked, Answer | CorralError]:
    """Of many requests, those that were answered before, each with that answer or why it does not get it.

    The others are the first, as far as can be seen: `keep_all` finds out.
    """
    by_key = {(each.caller, each.key): each for each in asked}
    if not by_key:
        return {}
    callers, keys = sorted({caller for caller, _ in by_key}), sorted({key for _, key in by_key})
    found: dict[Asked, Answer | CorralError] = {}
    for row in take_steps(session, Query(_EARLIER, {"callers": callers, "keys": keys}))[0].found:
        one = by_key.get((row.caller, row.key))
        if one is None:
            continue  # another caller's key of the same name
        try:
            found[one] = _answer(row, one)
        except CorralError as refusal:
            found[one] = refusal
    return found


def keep_all(session: Session, answers: Mapping[Asked, Answer], now: int) -> None:
    """Keep the answers of requests that were the first of their keys.

    Raises:
        KeyTaken: one was not; nothing of the transaction may be committed.
    """
    if not answers:
        return
    rows = [
        {
            "caller": asked.caller,
            "key": asked.key,
            "route": asked.route,
            "body_sha256": asked.body_sha256,
            "status": answer.status,
            "answer": answer.body,
            "created_us": now,
        }
        for asked, answer in sorted(answers.items(), key=lambda each: (each[0].caller, each[0].key))
    ]
    if take_steps(session, Rows(_KEYS, rows, or_nothing=True))[0].count != len(rows):
        raise KeyTaken


def _answer(earlier: Any, asked: Asked) -> Answer:
    if (earlier.route, earlier.body_sha256) != (asked.route, asked.body_sha256):
        raise KeyReused
    if earlier.answer == SECRET:
        raise ShownOnce
    return Answer(earlier.status, earlier.answer)
