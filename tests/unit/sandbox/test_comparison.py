"""A difference is never passed over, and what is not in force is never called a difference."""

import pytest

from sandbox.comparison import Comparison
from sandbox.contract import FactSource, WeakerThanAsked
from sandbox.wall_facts import tmpfs_bytes


def test_what_agrees_becomes_a_record() -> None:
    comparison = Comparison()
    comparison.exact("uid", 1, 1)
    comparison.at_most("pids", 10, 9)
    comparison.holds("groups", "none", True, "none")
    comparison.not_in_force("memory", 5, "the host does not let us")
    facts = comparison.facts()
    assert [(fact.name, fact.asked, fact.found) for fact in facts] == [
        ("uid", "1", "1"),
        ("pids", "at most 10", "9"),
        ("groups", "none", "none"),
        ("memory", "5", "the host does not let us"),
    ]
    assert [fact.source for fact in facts] == [*[FactSource.OBSERVED] * 3, FactSource.NOT_IN_FORCE]


def test_every_difference_is_named() -> None:
    comparison = Comparison()
    comparison.exact("uid", 1, 0)
    comparison.at_most("pids", 10, 11)
    comparison.at_most("memory", 10, None)
    comparison.holds("groups", "none", False, "0")
    comparison.exact("fine", 1, 1)
    with pytest.raises(WeakerThanAsked) as refusal:
        comparison.facts()
    for name in ("uid", "pids", "memory", "groups"):
        assert f"{name}: asked" in str(refusal.value)
    assert "fine" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "size"), [("980k", 980 << 10), ("16m", 16 << 20), ("1g", 1 << 30), ("4096", 4096), ("", None), ("x", None)]
)
def test_sizes_are_read_as_the_kernel_writes_them(text: str, size: int | None) -> None:
    assert tmpfs_bytes(text) == size
