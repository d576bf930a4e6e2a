"""Whatever usage is grouped by, it adds up to the same; and each group gets what is its own."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from zoneinfo import ZoneInfo

import pytest
from builders import a_job, a_node, a_placement, a_tenant
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_parts import a_line
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.calendar import Period
from domain.errors import Invalid
from domain.ids import TenantId
from store import assignments
from store import usage as usage_module
from store.engine import reading, writing
from store.tables import LedgerEntry
from store.usage import GROUPS, PERIODS, Question, usage

HOUR_US = 3_600_000_000
START_US = 1_761_300_000_000_000
"""The eve of a night in which Berlin's clocks go back."""
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu")
plain = [group for group in GROUPS if group not in PERIODS]


@pytest.fixture
def books(engine: Engine) -> Iterator[Session]:
    """An organisation with two teams, jobs with labels, lines of every kind, some over midnights and a month's end."""
    with writing(engine) as session:
        top = a_tenant(session, "org")
        teams = [a_tenant(session, name, parent=top) for name in ("vision", "speech")]
        node = a_node(session)
        jobs = [a_job(session, team, gpus=1, spec={"labels": {"project": project}}, image_name=project)
                for team, project in zip(teams, ("cats", "dogs"), strict=True)]  # fmt: skip
        placement = a_placement(session, jobs[0], node)
        assignments.lock_for(session, [placement])
        attempt = assignments.assign(session, placement).attempt_id
        a_line(session, top, START_US, 9_000_001, cause="preparing", model="A100")
        a_line(session, teams[0], START_US, 30 * HOUR_US + 7, job_id=jobs[0], attempt_id=attempt)
        a_line(session, teams[0], START_US + 7, 8 * 24 * HOUR_US + 13, job_id=jobs[0], share_milli=333)
        a_line(session, teams[0], START_US + HOUR_US, -5_000_003, kind="correction", cost_micro=-4999)
        a_line(session, teams[1], START_US - 1, 2, job_id=jobs[1], cause="stopping")
        a_line(session, teams[1], START_US, 0, kind="adjustment", cause="adjustment", cost_micro=-777, model="")
    with reading(engine) as session:
        yield session


def test_any_grouping_adds_up_to_the_same(books: Session) -> None:
    entries = books.exec(select(LedgerEntry)).all()
    whole = (sum(e.duration_us * e.share_milli for e in entries), sum(e.cost_micro for e in entries))

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(st.sampled_from([*plain, "label:project"]), unique=True, max_size=3),
        st.none() | st.sampled_from(PERIODS),
        st.sampled_from(ZONES),
        st.lists(st.integers(START_US - 10, START_US + 10 * 24 * HOUR_US), max_size=2, unique=True),
    )
    def adds_up(groups: list[str], period: str | None, zone: str, cuts: list[int]) -> None:
        asked = [*groups, *([period] if period else [])]
        edges = [None, *sorted(cuts), None]
        sums = [0, 0]
        for since, until in itertools.pairwise(edges):
            found = usage(books, Question(None, asked, since, until, ZoneInfo(zone)))
            for each in found.own.values():
                sums[0] += each.gpu_us_milli
                sums[1] += each.cost_micro
            if "tenant" in asked:
                roots = [each for key, each in found.with_below.items() if key[asked.index("tenant")] == tops[0]]
                assert sum(each.cost_micro for each in roots) == sum(each.cost_micro for each in found.own.values())
        assert tuple(sums) == whole

    tops = [row.tenant_id for row in entries if row.cause == "preparing"]
    adds_up()


def test_a_parents_line_tells_its_own_from_what_was_used_below(books: Session) -> None:
    found = usage(books, Question(None, ["tenant"]))
    names = {entry.tenant_id: entry.cause for entry in books.exec(select(LedgerEntry))}
    (top,) = [tenant for tenant, cause in names.items() if cause == "preparing"]
    assert found.own[top,].gpu_us_milli == 9_000_001_000
    assert found.with_below[top,].entries == sum(each.entries for each in found.own.values()) == 6
    teams = usage(books, Question([TenantId(each) for each in names if each != top], ["tenant"]))
    assert (top,) not in teams.with_below, "what was not asked for is not shown"


def test_hours_of_a_night_that_has_one_twice_are_told_apart(books: Session) -> None:
    night = (START_US + 24 * HOUR_US, START_US + 26 * HOUR_US)
    found = usage(books, Question(None, ["hour"], *night, ZoneInfo("Europe/Berlin")))
    names = [key[0].name for key in sorted(found.own, key=str) if isinstance(key[0], Period)]
    assert any("+02:00" in name for name in names)
    assert len(set(names)) == len(names)


def test_labels_images_and_nodes_come_from_the_job(books: Session) -> None:
    by = usage(books, Question(None, ["label:project", "image"])).own
    assert {key for key in by if key[0]} == {("cats", "cats"), ("dogs", "dogs")}
    assert by[None, None].entries == 3, "lines that are about no job stay"
    assert usage(books, Question(None, ["label:absent"])).own[None,].entries == 6
    assert {key[0] is None for key in usage(books, Question(None, ["node"])).own} == {True, False}


def test_an_answer_that_would_not_fit_is_refused(books: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_module, "LINES_MAX", 10)
    with pytest.raises(Invalid, match="more than 10 lines"):
        usage(books, Question(None, ["hour"]))
    with closing(books):
        assert len(usage(books, Question(None, ["month"])).own) == 2
