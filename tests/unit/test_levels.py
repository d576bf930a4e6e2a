"""How strong a wall is: never weaker than asked, never a level that the image does not run at."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.levels import ImageKind, Level, chosen_level, runs_at

ALL = frozenset(Level)
level_sets = st.frozensets(st.sampled_from(Level))


def test_levels_are_ordered_from_the_weakest() -> None:
    assert sorted(Level, key=lambda level: level.strength) == [
        Level.PROCESS,
        Level.CONTAINER,
        Level.GVISOR,
        Level.KATA,
    ]


@pytest.mark.parametrize(("kind", "level"), list(itertools.product(ImageKind, Level)))
def test_the_hosts_own_files_run_as_a_process_and_nothing_else_does(kind: ImageKind, level: Level) -> None:
    assert runs_at(kind, level) == ((kind is ImageKind.HOST) == (level is Level.PROCESS))


@pytest.mark.parametrize(
    ("offered", "least", "kind", "allowed", "chosen"),
    [
        (ALL, Level.CONTAINER, ImageKind.ENGINE, ALL, Level.CONTAINER),
        (ALL, Level.PROCESS, ImageKind.ENGINE, ALL, Level.CONTAINER),
        (ALL, Level.PROCESS, ImageKind.HOST, ALL, Level.PROCESS),
        (ALL, Level.CONTAINER, ImageKind.HOST, ALL, None),
        (ALL, Level.CONTAINER, ImageKind.ENGINE, frozenset({Level.KATA, Level.GVISOR}), Level.GVISOR),
        (frozenset({Level.KATA}), Level.GVISOR, ImageKind.ENGINE, ALL, Level.KATA),
        (frozenset({Level.CONTAINER}), Level.GVISOR, ImageKind.ENGINE, ALL, None),
        (ALL, Level.GVISOR, ImageKind.ENGINE, frozenset({Level.CONTAINER}), None),
        (frozenset(), Level.PROCESS, ImageKind.HOST, ALL, None),
        (ALL, Level.PROCESS, ImageKind.HOST, frozenset(), None),
    ],
)
def test_the_weakest_that_will_do_is_chosen(
    offered: frozenset[Level], least: Level, kind: ImageKind, allowed: frozenset[Level], chosen: Level | None
) -> None:
    assert chosen_level(offered, least, kind, allowed) is chosen


@given(level_sets, st.sampled_from(Level), st.sampled_from(ImageKind), level_sets)
def test_none_is_ever_weaker_than_asked_or_not_allowed_and_none_that_would_do_is_missed(
    offered: frozenset[Level], least: Level, kind: ImageKind, allowed: frozenset[Level]
) -> None:
    fitting = [level for level in Level if level in offered & allowed and runs_at(kind, level)]
    fitting = [level for level in fitting if level.strength >= least.strength]
    assert chosen_level(offered, least, kind, allowed) == next(iter(fitting), None)
