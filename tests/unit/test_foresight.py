"""Which nodes should have which images before their jobs' turn."""

from typing import Any

from clusters import GIB, a_demand, a_node, a_snapshot, devices
from hypothesis import given
from hypothesis import strategies as st

from domain.ids import Instant
from domain.scheduling.foresight import IMAGES_ON_A_NODE, JOBS_AHEAD, NODES_FOR_AN_IMAGE, foresee
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import Demand, Node


def an_image(name: str) -> str:
    return f"r.example/{name}@sha256:{'a' * 64}"


def a_job(name: str, image: str = "x", **changes: Any) -> Demand:
    return a_demand(name, **{"gpus": 1, "image_reference": an_image(image), **changes})


def foreseen(nodes: list[Node], queue: list[Demand]) -> set[tuple[str, str]]:
    snapshot = a_snapshot(nodes, queue)
    found = foresee(snapshot, plan(snapshot, Instant(1)))
    return {(node_id, reference) for node_id, reference in found}


def busy(name: str, **changes: Any) -> Node:
    return a_node(name, *devices(name, 1, held=1), **changes)


def test_the_image_of_a_job_that_waits_for_a_device_is_wanted_where_it_could_run() -> None:
    nodes = [busy("a", levels=frozenset()), busy("b"), a_node("c"), busy("d", is_open=False)]
    assert foreseen(nodes, [a_job("j")]) == {("nod_b", an_image("x"))}


def test_an_image_built_on_a_node_and_one_whose_job_waits_for_ever_are_wanted_nowhere() -> None:
    queue = [
        a_job("local", image_reference="sha256:" + "b" * 64),
        a_job("never", models=("B200",)),
        a_job("driver", min_cuda=(99, 0)),
    ]
    assert foreseen([busy("a")], queue) == set()


def test_fifty_jobs_want_one_image_on_few_nodes() -> None:
    nodes = [busy(str(n)) for n in range(10)]
    assert len(foreseen(nodes, [a_job(f"j{n:02d}") for n in range(50)])) == NODES_FOR_AN_IMAGE
    assert len(foreseen(nodes, [a_job("one")])) == 1


def test_a_job_to_come_later_has_its_image_by_then() -> None:
    assert foreseen([busy("a")], [a_job("later", not_before=Instant(10**12))]) == {("nod_a", an_image("x"))}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=100))
def test_no_node_has_more_than_its_share_and_the_order_of_nodes_changes_nothing(jobs: list[tuple[int, int]]) -> None:
    nodes = [busy(str(n), memory_bytes=(n + 1) * GIB) for n in range(5)]
    queue = [a_job(f"j{n:03d}", f"i{image}", memory_bytes=size * GIB) for n, (image, size) in enumerate(jobs)]
    found = foreseen(nodes, queue)
    assert found == foreseen(nodes[::-1], queue[::-1])
    assert all(sum(node == each for node, _ in found) <= IMAGES_ON_A_NODE for each, _ in found)
    assert len(found) <= JOBS_AHEAD
