"""The plan and the purses: who can be paid starts, and who waits is told for what, in people's units."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from clusters import a_demand, a_node, a_snapshot, a_tenant, devices
from hypothesis import given
from hypothesis import strategies as st

from domain import budget
from domain.ids import Instant, JobId
from domain.purse import MONTHLY, TOTAL, Purse, Unit
from domain.purse_words import EXHAUSTED
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import ANY_CLASS, Demand, Funds, Plan

HOUR = 3_600_000_000
NOW = Instant(1_796_000_000_000_000)
MONEY, TIME, GPUS = Unit.MONEY, Unit.GPU_TIME, Unit.GPUS_MILLI


def a_job(name: str, tenant: str = "ten", hours: int = 1, **changes: Any) -> Demand:
    return a_demand(name, tenant, gpus=changes.pop("gpus", 1), longest_us=hours * HOUR, **changes)


def planned(queue: list[Demand], *purses: Purse, price: int = 10_000_000, **funds: Any) -> Plan:
    tenants = [a_tenant("org"), a_tenant("ten", "org"), a_tenant("other", "org")]
    money = {("*", ANY_CLASS): price} | funds.pop("dearest_micro", {})
    snapshot = a_snapshot([a_node("a", *devices("a", 4), *devices("a", 4, "L4"))], queue, tenants)
    return plan(replace(snapshot, funds=Funds(purses, money, **funds)), NOW)


def a_purse(
    bound: int, held: int = 0, spent: int = 0, owner: str = "ten", unit: Unit = MONEY, period: str = ""
) -> Purse:
    return Purse(owner, unit, period, bound, held, spent)


def test_jobs_start_as_far_as_the_budget_reaches_and_the_next_is_told_what_is_left() -> None:
    found = planned([a_job("a"), a_job("b"), a_job("c")], a_purse(25_000_000))
    assert [each.job_id for each in found.placements] == ["a", "b"]
    reason = found.waiting[JobId("c")]
    assert reason.code == "budget_short"
    assert reason.text == (
        "could use up to 10.00; 5.00 of the budget of 25.00 left (20.00 held for running jobs);"
        " it starts when enough of it is let go"
    )


def test_a_smaller_job_passes_one_that_is_too_dear_for_what_is_left() -> None:
    found = planned([a_job("a", hours=3), a_job("b")], a_purse(25_000_000))
    assert [each.job_id for each in found.placements] == ["b"]
    assert "a shorter time limit would help" in found.waiting[JobId("a")].text


@pytest.mark.parametrize(
    ("purse", "code", "text"),
    [
        (a_purse(10, spent=10), "budget_exhausted", "the budget of 0.00001 is spent; a top-up by an admin releases it"),
        (a_purse(HOUR, spent=HOUR, unit=TIME, period=budget.month_of(NOW)), "month_hours_exhausted",
         f"the 1 GPU-hour of {budget.month_of(NOW)} are spent; it goes on with the next month, or when an admin grants"
         " more"),
        (a_purse(5_000_000, spent=5_000_000, owner="key_1"), "key_money_exhausted",
         "the key's 5.00 is spent; whoever made the key can raise it"),
        (a_purse(5_000_000, spent=6_000_000, owner="org"), "budget_exhausted",
         "the budget of a tenant above is spent; a top-up by an admin releases it"),
        (a_purse(1000, held=1000, owner="key_1", unit=GPUS), "key_gpus_short",
         "takes 1 GPU; 0 GPUs of the key's 1 GPU left (1 GPU held for running jobs); it starts when enough of it is let"
         " go"),
    ],
)  # fmt: skip
def test_each_purse_has_its_code_and_its_sentence(purse: Purse, code: str, text: str) -> None:
    found = planned([a_job("a", key_id="key_1")], purse)
    reason = found.waiting[JobId("a")]
    assert (reason.code, reason.text) == (code, text)
    assert (code in EXHAUSTED) == code.endswith("_exhausted")
    assert ("spent" in reason.numbers) == (purse.owner_id != "org")


def test_a_key_pays_with_those_that_it_was_made_with() -> None:
    purses = (a_purse(15_000_000, owner="key_parent"),)
    chains = {"key_child": ("key_parent", "key_child")}
    found = planned([a_job("a", key_id="key_child"), a_job("b", key_id="key_child")], *purses, key_chains=chains)
    assert len(found.placements) == 1
    assert len(planned([a_job("a"), a_job("b")], *purses, key_chains=chains).placements) == 2


def test_a_month_that_is_coming_takes_its_bound_from_the_rule() -> None:
    hours = (budget.month_end(NOW) - NOW) // HOUR + 10
    rule = a_purse(5 * HOUR, unit=TIME, period=MONTHLY)
    wide = a_purse(10_000 * HOUR, unit=TIME, period=budget.month_of(NOW))
    assert planned([a_job("a", hours=hours)], rule, wide).waiting[JobId("a")].code == "month_hours_short"
    assert planned([a_job("a", hours=hours - 8)], rule, wide).placements


def test_the_cheaper_model_is_taken_where_the_dearer_one_cannot_be_paid() -> None:
    prices = {("H100", ANY_CLASS): 20_000_000, ("L4", 1): 1_000_000}
    found = planned([a_job("a", models=("H100", "L4"))], a_purse(5_000_000), dearest_micro=prices)
    assert found.placements[0].models == ("L4",)


def test_what_costs_nothing_starts_under_a_spent_budget_and_another_tenant_is_not_touched() -> None:
    spent = a_purse(0)
    found = planned([a_job("cpu", gpus=0), a_job("other", "other"), a_job("gpu")], spent)
    assert {each.job_id for each in found.placements} == {"cpu", "other"}
    assert planned([a_job("gpu")], spent, price=0).placements


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.integers(1, 2000), st.sampled_from(["ten", "other"]), st.sampled_from(["key_1", None])
        ),
        max_size=12,
    ),
    st.lists(
        st.tuples(
            st.sampled_from(["ten", "org", "key_1"]), st.sampled_from(list(Unit)),
            st.sampled_from([TOTAL, MONTHLY, budget.month_of(NOW)]), st.integers(0, 4000),
        ),
        max_size=6,
        unique_by=lambda each: each[:3],
    ),
)  # fmt: skip
def test_no_plan_holds_more_than_a_purse_has_and_everyone_starts_or_is_told_why(
    jobs: list[tuple[int, int, str, str | None]], bounds: list[tuple[str, Unit, str, int]]
) -> None:
    scale = {MONEY: 10_000_000, TIME: HOUR, GPUS: 1}
    purses = [a_purse(bound * scale[unit], 0, 0, owner, unit, period) for owner, unit, period, bound in bounds]
    queue = [
        a_job(f"job{number}", tenant, hours, gpus=gpus, key_id=key)
        for number, (gpus, hours, tenant, key) in enumerate(jobs)
    ]
    found = planned(queue, *purses)
    placed = {each.job_id for each in found.placements}
    assert placed | found.waiting.keys() == {each.job_id for each in queue}
    for purse in purses:
        held: Counter[str] = Counter()
        for job in (each for each in queue if each.job_id in placed):
            if purse.owner_id in (job.tenant_id, "org", job.key_id):
                for (unit, period), amount in budget.most([10_000_000] * job.gpus, NOW, job.longest_us).items():
                    held[period] += amount if unit is purse.unit else 0
        bounded = {purse.period} if purse.period != MONTHLY else held.keys() - {TOTAL, budget.month_of(NOW)}
        assert all(held[period] <= purse.bound for period in bounded)


def test_of_jobs_with_different_keys_one_that_is_blocked_does_not_block_the_other() -> None:
    found = planned([a_job("a", key_id="key_1"), a_job("b", key_id="key_2")], a_purse(0, owner="key_1", unit=GPUS))
    assert [each.job_id for each in found.placements] == ["b"]
