"""Guarantees, lending and borrowing, as a rule: no bound is passed on any level, and what is kept is always there."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import Invalid
from domain.ids import Instant, TenantId
from domain.quota import claim, reservations, room
from domain.quota_terms import Extra, GpuBounds, GpuTerms, broken_promise, check_terms, gpu_bounds
from domain.scheduling.plan import plan
from domain.scheduling.queue import Book
from domain.scheduling.snapshot import TenantShare
from tests.clusters import a_demand, a_node, a_snapshot, a_tenant, devices

NOW = Instant(100)
ROW = "*"


@st.composite
def trees(draw: st.DrawFn) -> dict[TenantId, TenantShare]:
    """A bounded top and tenants below it, whose kept guarantees fit under every ceiling."""
    shares: dict[TenantId, TenantShare] = {}
    for n in range(draw(st.integers(2, 7))):
        name = TenantId(f"t{n}")
        parent = draw(st.sampled_from(sorted(shares))) if shares else None
        ceiling = draw(st.integers(2, 12)) if parent is None else draw(st.none() | st.integers(1, 8))
        kept = 0 if parent is None else draw(st.integers(0, 3))
        shares[name] = a_tenant(
            name,
            parent,
            gpu_limit_milli={ROW: None if ceiling is None else ceiling * 1000},
            gpu_promised_milli={ROW: kept * 1000},
            gpu_kept_milli={ROW: kept * 1000 if ceiling is None else min(kept, ceiling) * 1000},
        )
    parents = {each.tenant_id: each.parent_id for each in shares.values()}
    while True:
        kept_of = {each.tenant_id: each.gpu_kept_milli[ROW] for each in shares.values()}
        reserved = reservations(parents, {}, kept_of)
        over = [
            each
            for each in shares.values()
            if each.gpu_limit_milli[ROW] is not None and reserved[each.tenant_id] > (each.gpu_limit_milli[ROW] or 0)
        ]
        if not over:
            break
        for each in over:
            shares[each.tenant_id] = replace(each, gpu_limit_milli={ROW: reserved[each.tenant_id]})
    return {
        of: replace(share, gpu_reserved_milli={ROW: reserved[of]} if reserved[of] else {})
        for of, share in shares.items()
    }


@given(trees(), st.lists(st.tuples(st.integers(0, 6), st.integers(1, 3)), max_size=25))
@settings(max_examples=150, deadline=None)
def test_no_bound_is_passed_and_what_is_kept_is_always_there(
    tree: dict[TenantId, TenantShare], asks: list[tuple[int, int]]
) -> None:
    book, names = Book(tree), sorted(tree)
    parents = {of: share.parent_id for of, share in tree.items()}
    kept = {of: share.gpu_kept_milli[ROW] for of, share in tree.items()}
    for number, count in asks:
        tenant_id = names[number % len(names)]
        demand = a_demand("job", tenant_id, gpus=count)
        if room(book.path(tenant_id), "H100").holds(count * 1000):
            book.charge(demand, "H100")
        used = {of: book.path(of)[0].gpu_used_milli.get(ROW, 0) for of in names}
        counted = reservations(parents, used, kept)
        for of in names:
            account = book.path(of)[0]
            limit = account.gpu_limit_milli[ROW]
            assert account.gpu_reserved_milli.get(ROW, 0) == counted[of], "the counter is a recount"
            assert limit is None or used[of] + counted[of] <= limit
            unused = kept[of] - claim(used[of], counted[of], 0)
            assert unused <= 0 or room(book.path(of), "H100").holds(unused), "what is kept is there"


def test_own_quota_goes_before_borrowed_in_the_queue() -> None:
    org = a_tenant("org", gpu_limit_milli={"*": 2000})
    owner = a_tenant("owner", "org", gpu_promised_milli={"*": 2000}, gpu_used_milli={"*": 1000, "H100": 1000}, weight=1)
    eager = a_tenant("eager", "org", weight=100)
    queue = [
        a_demand("a-borrows", "eager", gpus=1),
        a_demand("b-owns", "owner", gpus=1),
        a_demand("c", "owner", gpus=1),
    ]
    tenants = [replace(org, gpu_used_milli={"*": 1000, "H100": 1000}), owner, eager]
    outcome = plan(a_snapshot([a_node("n", *devices("n", 8))], queue, tenants), NOW)
    assert [each.job_id for each in outcome.placements] == ["b-owns"]
    assert outcome.waiting["a-borrows"].code == "quota_gpus"


def test_a_tenant_that_used_its_guarantee_up_borrows_after_the_others() -> None:
    tenants = [a_tenant("one", gpu_promised_milli={"*": 1000}), a_tenant("two", gpu_promised_milli={"*": 1000})]
    queue = [a_demand(f"{of}-{n}", of, gpus=1, submitted_at=n) for n in range(2) for of in ("one", "two")]
    outcome = plan(a_snapshot([a_node("n", *devices("n", 2))], queue, tenants), NOW)
    assert {each.job_id for each in outcome.placements} == {"one-0", "two-0"}


def test_who_waits_for_what_others_keep_is_told_so_and_not_how_much_it_is() -> None:
    org = a_tenant("org", gpu_limit_milli={"*": 4000}, gpu_reserved_milli={"*": 3000})
    kept = a_tenant("owner", "org", gpu_promised_milli={"*": 3000}, gpu_kept_milli={"*": 3000})
    nodes = [a_node("n", *devices("n", 8))]
    outcome = plan(a_snapshot(nodes, [a_demand("job", "other", gpus=2)], [org, kept, a_tenant("other", "org")]), NOW)
    found = outcome.waiting["job"]  # type: ignore[index]
    assert found.code == "quota_borrowing"
    assert found.numbers == {"asked": 2, "steps_up": 1}
    assert found.text.startswith("needs 2 GPUs; what is left is guaranteed to others")


@pytest.mark.parametrize(
    ("terms", "extra", "bounds"),
    [
        (GpuTerms(8), None, (8, 0, 0)),
        (GpuTerms(8, guaranteed_milli=4), None, (8, 4, 0)),
        (GpuTerms(8, 4, lendable_milli=1), None, (8, 4, 3)),
        (GpuTerms(8, 4, borrowable_milli=2), None, (6, 4, 0)),
        (GpuTerms(None, 4, borrowable_milli=0, lendable_milli=0), None, (4, 4, 4)),
        (GpuTerms(8, 4, lendable_milli=4), Extra(2, 1), (10, 5, 1)),
        (GpuTerms(), Extra(2, 0), (None, 0, 0)),
    ],
)
def test_what_follows_from_a_row(terms: GpuTerms, extra: Extra | None, bounds: tuple[int | None, int, int]) -> None:
    extras = {} if extra is None else {"*": extra}
    assert gpu_bounds({"*": terms}, extras, has_parent=True)["*"] == GpuBounds(*bounds)


def test_what_is_guaranteed_or_granted_of_a_model_is_so_of_all() -> None:
    terms = {"*": GpuTerms(10), "H100": GpuTerms(4, 3, lendable_milli=1), "T4": GpuTerms(None, 2, lendable_milli=0)}
    found = gpu_bounds(terms, {"H100": Extra(1, 0)}, has_parent=True)
    assert found == {"*": GpuBounds(11, 5, 4), "H100": GpuBounds(5, 3, 2), "T4": GpuBounds(None, 2, 2)}


def test_without_a_row_of_all_a_tenant_at_the_top_has_nothing_and_one_below_has_what_is_above() -> None:
    assert gpu_bounds({}, {}, has_parent=False)["*"].ceiling_milli == 0
    assert gpu_bounds({}, {}, has_parent=True)["*"].ceiling_milli is None


def test_a_row_that_contradicts_itself_is_refused() -> None:
    for row in (GpuTerms(2, 3), GpuTerms(4, 2, lendable_milli=3)):
        with pytest.raises(Invalid):
            check_terms({"H100": row})


def test_a_promise_is_broken_where_more_is_guaranteed_below_than_may_be_used() -> None:
    top, mid, leaf = TenantId("top"), TenantId("mid"), TenantId("leaf")
    parents = {top: None, mid: top, leaf: mid}
    bounds = {top: GpuBounds(4, 0, 0), mid: GpuBounds(None, 0, 0), leaf: GpuBounds(9, 5, 0)}
    assert broken_promise(parents, bounds, (top, mid, leaf)) == top
    assert broken_promise(parents, {**bounds, leaf: GpuBounds(9, 4, 0)}, (top, mid, leaf)) is None
