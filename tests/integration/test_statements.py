"""Steps that go to the database together behave as statements of SQLAlchemy would, on both engines."""

import pytest
from sqlalchemy import Engine, bindparam, select, update
from sqlalchemy.exc import IntegrityError

from store.base import table_of
from store.engine import reading, writing
from store.statements import Query, Rows, take_steps
from store.tables import Event, Idempotency

_EVENT, _KEYS = table_of(Event), table_of(Idempotency)
_OF = select(_EVENT).where(_EVENT.c.job_id.in_(bindparam("of", expanding=True)), _EVENT.c.what == "tried")
_SAY = update(_EVENT).where(_EVENT.c.job_id == bindparam("of")).values(data=bindparam("data"))


def an_event(job_id: str | None, **data: object) -> dict[str, object]:
    return {"at_us": 2**60, "what": "tried", "job_id": job_id, "text": "ein Wörtchen 'und' %s", "data": data}


def a_key(key: str) -> dict[str, object]:
    return {
        "caller": "a", "key": key, "route": "", "body_sha256": "", "status": 201, "answer": b"\0\xff", "created_us": 1
    }  # fmt: skip


def test_what_is_written_is_read_as_it_was(engine: Engine) -> None:
    with writing(engine) as session:
        take_steps(session, Rows(_EVENT, [an_event("a", n=[1, None, True]), an_event("b"), an_event("c")]))
        take_steps(session, Query(_SAY, {"of": "b", "data": {"said": "ü"}}))
    with reading(engine) as session:
        three, one = take_steps(session, Query(_OF, {"of": ["a", "b", "x"]}), Query(_OF, {"of": ["c"]}))
    assert [row.data for row in three.found] == [{"n": [1, None, True]}, {"said": "ü"}]
    assert (one.count, one.found[0].text, one.found[0].at_us) == (1, "ein Wörtchen 'und' %s", 2**60)
    assert one.found[0].tenant_id is None


def test_bytes_are_kept_and_rows_whose_key_is_taken_are_counted_out(engine: Engine) -> None:
    with writing(engine) as session:
        (first,) = take_steps(session, Rows(_KEYS, [a_key("k")], or_nothing=True))
        (again,) = take_steps(session, Rows(_KEYS, [a_key("k"), a_key("l")], or_nothing=True))
        assert (first.count, again.count) == (1, 1)
        assert session.get_one(Idempotency, ("a", "l")).answer == b"\0\xff"


def test_a_step_that_is_refused_raises_what_sqlalchemy_raises_and_leaves_nothing(engine: Engine) -> None:
    with pytest.raises(IntegrityError), writing(engine) as session:
        take_steps(session, Rows(_EVENT, [an_event("gone")]), Rows(_KEYS, [a_key("k"), a_key("k")]))
    with reading(engine) as session:
        assert take_steps(session, Query(_OF, {"of": ["gone"]}))[0].count == 0
