"""How quotas apply up the tree: every row counts, the one with the least left binds."""

from hypothesis import given
from hypothesis import strategies as st

from domain.quota import room
from tests.clusters import a_tenant


def test_nothing_bounds_what_has_no_limit() -> None:
    assert room([a_tenant("ten")], "H100").binding is None
    assert room([a_tenant("ten")]).holds(10**9)


def test_a_model_without_a_row_is_bounded_by_the_row_of_all() -> None:
    found = room([a_tenant("ten", gpu_limit_milli={"*": 4000}, gpu_used_milli={"*": 1000, "T4": 1000})], "H100")
    assert found.binding is not None
    assert (found.binding.row, found.binding.left) == ("*", 3000)
    assert found.holds(3000)
    assert not found.holds(3001)


def test_without_a_row_of_all_nothing_is_granted() -> None:
    assert not room([a_tenant("ten", gpu_limit_milli={"H100": 4000})], "H100").holds(1)
    assert not room([a_tenant("ten", gpu_limit_milli={})], "H100").holds(1)


def test_the_model_and_all_models_both_count() -> None:
    share = a_tenant("ten", gpu_limit_milli={"*": 8000, "H100": 2000}, gpu_used_milli={"*": 7000, "H100": 1000})
    found = room([share], "H100").binding
    assert found is not None
    assert found.row == "H100", "among equals the model's own row is told"
    assert not room([share], "T4").holds(1001)


def test_a_tenant_above_binds_and_the_nearest_is_told_among_equals() -> None:
    tight = a_tenant("org", gpu_limit_milli={"*": 1000})
    loose = a_tenant("ten", "org", gpu_limit_milli={"*": 2000})
    found = room([loose, tight], "H100").binding
    assert found is not None
    assert (found.tenant_id, found.steps_up, found.left) == ("org", 1, 1000)
    nearest = room([a_tenant("ten", "org", gpu_limit_milli={"*": 1000}), tight], "H100").binding
    assert nearest is not None
    assert nearest.steps_up == 0


def test_a_bound_that_was_lowered_under_its_use_leaves_less_than_nothing() -> None:
    found = room([a_tenant("ten", running_limit=2, running=5)])
    assert found.binding is not None
    assert found.binding.left == -3
    assert not found.holds(1)
    assert not found.holds(0)


@given(st.lists(st.tuples(st.none() | st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=5), st.integers(1, 9))
def test_what_the_room_holds_every_level_holds(rows: list[tuple[int | None, int]], asked: int) -> None:
    path = [a_tenant(f"t{i}", running_limit=limit, running=used) for i, (limit, used) in enumerate(rows)]
    assert room(path).holds(asked) == all(limit is None or used + asked <= limit for limit, used in rows)
