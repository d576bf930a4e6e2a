"""What the scheduler decides: who is next, where, and why the others wait."""

from dataclasses import replace
from typing import Any

import pytest

from domain.ids import Instant, JobId, NodeId
from domain.levels import ImageKind, Level
from domain.scheduling.capacity import feasible
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import ArrayRoom, Demand, Node, Plan, Reason, Snapshot
from tests.clusters import GIB, a_demand, a_node, a_snapshot, a_tenant, devices

NOW = Instant(1_000_000)


def planned(snapshot: Snapshot) -> Plan:
    return plan(snapshot, NOW)


def started(snapshot: Snapshot) -> list[str]:
    return [placement.job_id for placement in planned(snapshot).placements]


def place_of(node_list: list[Node], demand: Demand) -> str | None:
    placements = planned(a_snapshot(node_list, [demand])).placements
    return placements[0].node_id.removeprefix("nod_") if placements else None


def reason_of(snapshot: Snapshot, job: str = "job") -> Reason:
    return planned(snapshot).waiting[JobId(job)]


# Order


def test_a_higher_class_goes_first_whoever_has_more() -> None:
    tenants = [a_tenant("rich", gpu_used_milli={"H100": 4000, "*": 4000}), a_tenant("poor")]
    queue = [a_demand("low", "poor", gpus=1), a_demand("high", "rich", gpus=1, priority=2)]
    assert started(a_snapshot([a_node("n", *devices("n", 8))], queue, tenants)) == ["high", "low"]


def test_the_next_tenant_is_chosen_anew_after_each_placement() -> None:
    queue = [a_demand(f"{tenant}{i}", tenant, gpus=1) for tenant in "ab" for i in range(3)]
    snapshot = a_snapshot([a_node("n", *devices("n", 8))], queue, [a_tenant("a"), a_tenant("b")])
    assert started(snapshot) == ["a0", "b0", "a1", "b1", "a2", "b2"]


def test_twice_the_weight_gets_twice_as_much() -> None:
    queue = [a_demand(f"{tenant}{i}", tenant, gpus=1) for tenant in "ab" for i in range(6)]
    tenants = [a_tenant("a", weight=2), a_tenant("b")]
    names = started(a_snapshot([a_node("n", *devices("n", 6))], queue, tenants))
    assert [sum(name.startswith(tenant) for name in names) for tenant in "ab"] == [4, 2]


def test_without_gpus_running_jobs_decide() -> None:
    queue = [a_demand("a", "a"), a_demand("b", "b")]
    tenants = [a_tenant("a", running=1), a_tenant("b")]
    assert started(a_snapshot([a_node("n")], queue, tenants)) == ["b", "a"]


def test_shares_are_compared_at_each_level_of_the_tree() -> None:
    """One organisation with many teams gets no more than one with a single team."""
    tenants = [a_tenant("big"), a_tenant("small"), *(a_tenant(f"big{i}", "big") for i in range(3))]
    queue = [a_demand(f"j-big{i}", f"big{i}", gpus=1) for i in range(3)]
    queue += [a_demand(f"j-small{i}", "small", gpus=1) for i in range(3)]
    names = started(a_snapshot([a_node("n", *devices("n", 4))], queue, tenants))
    assert names == ["j-big0", "j-small0", "j-big1", "j-small1"]


def test_a_tenant_with_teams_may_have_jobs_of_its_own_that_compete_with_its_teams() -> None:
    tenants = [a_tenant("org", gpu_used_milli={"H100": 2000, "*": 2000}, running=2)]
    tenants += [a_tenant("team", "org", gpu_used_milli={"H100": 2000, "*": 2000}, running=2)]
    queue = [a_demand("of-team", "team", gpus=1), a_demand("of-org", "org", gpus=1, submitted_at=9)]
    assert started(a_snapshot([a_node("n", *devices("n", 4))], queue, tenants)) == ["of-org", "of-team"]


def test_a_scarce_model_counts_by_its_own_scarcity() -> None:
    nodes = [a_node("n", *devices("n", 2)), a_node("m", *devices("m", 8, "T4", 16))]
    tenants = [a_tenant("a", gpu_used_milli={"H100": 1000, "*": 1000})]
    tenants += [a_tenant("b", gpu_used_milli={"T4": 3000, "*": 3000})]
    queue = [a_demand("a", "a", gpus=1), a_demand("b", "b", gpus=1)]
    assert started(a_snapshot(nodes, queue, tenants)) == ["b", "a"]


def test_inside_a_tenant_age_decides_and_then_the_id() -> None:
    queue = [a_demand("c", submitted_at=1), a_demand("b", submitted_at=1), a_demand("a", submitted_at=2)]
    assert started(a_snapshot([a_node("n")], queue)) == ["b", "c", "a"]


def test_a_blocked_head_does_not_block_those_behind_it_that_fit() -> None:
    queue = [a_demand("head", gpus=4), a_demand("next", gpus=1, submitted_at=1)]
    snapshot = a_snapshot([a_node("n", *devices("n", 4, held=2))], queue)
    assert started(snapshot) == ["next"]
    assert reason_of(snapshot, "head").code == "no_device"


# Fit


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"is_open": False}, "no_node"),
        ({"levels": frozenset({Level.PROCESS})}, "no_level"),
        ({"cuda_driver": (12, 3)}, "no_driver"),
        ({"cuda_driver": None}, "no_driver"),
        ({"devices": devices("n", 8, "T4")}, "no_model"),
        ({"devices": devices("n", 1)}, "no_model"),
        ({"devices": devices("n", 8, memory_gib=39)}, "no_memory"),
        ({"cpus_milli": 7999}, "no_node"),
        ({"memory_bytes": 64 * GIB - 1}, "no_node"),
        ({"scratch_bytes": 100 * GIB - 1}, "no_node"),
        ({"devices": devices("n", 8, held=7)}, "no_device"),
        ({"cpus_milli_free": 7999}, "no_room"),
        ({"memory_bytes_free": 64 * GIB - 1}, "no_room"),
        ({"scratch_bytes_free": 100 * GIB - 1}, "no_room"),
    ],
)
def test_each_need_that_is_not_met_has_its_code(changes: dict[str, Any], code: str) -> None:
    demand = a_demand(
        "job",
        gpus=2,
        models=("H100", "H200"),
        gpu_memory_min_bytes=40 * GIB,
        cpus_milli=8000,
        memory_bytes=64 * GIB,
        scratch_bytes=100 * GIB,
        min_cuda=(12, 4),
    )
    good = a_node("n", *devices("n", 8))
    bad = a_node("n", **{"devices": devices("n", 8)} | changes)
    assert place_of([good], demand) == "n"
    found = reason_of(a_snapshot([bad], [demand]))
    assert found.code == code
    assert found.numbers
    is_for_ever = found.code not in ("no_device", "no_room") and bad.is_open
    assert (feasible(demand, [bad]) == found) if is_for_ever else (feasible(demand, [bad]) is None)


def test_the_empty_cluster_says_so() -> None:
    assert reason_of(a_snapshot([], [a_demand("job")])).text == "the cluster has no node"


def test_a_job_without_gpus_needs_no_driver_for_its_cuda_image() -> None:
    assert place_of([a_node("n", cuda_driver=None)], a_demand("job", min_cuda=(12, 4))) == "n"


def test_devices_are_all_on_one_node_and_of_one_model() -> None:
    mixed = a_node("n", *devices("n", 1, "H100"), *devices("n", 1, "H200"))
    other = a_node("m", *devices("m", 1, "H100"))
    demand = a_demand("job", gpus=2, models=("H100", "H200"))
    found = reason_of(a_snapshot([mixed, other], [demand]))
    assert found.code == "no_model"
    assert found.text == "needs 2 H100 or H200 on one node; the cluster has 3, 1 at most on one node"


def test_devices_are_taken_by_uuid() -> None:
    held = tuple(reversed(devices("n", 4, held=1)))
    [placement] = planned(a_snapshot([a_node("n", *held)], [a_demand("job", gpus=2)])).placements
    assert placement.gpu_ids == ("gpu_n-H100-1", "gpu_n-H100-2")
    assert placement.models == ("H100", "H100")


def test_the_level_is_the_weakest_that_is_strong_enough() -> None:
    node = a_node("n", levels=frozenset(Level))
    strong = a_demand("job", least_level=Level.GVISOR, allowed_levels=frozenset(Level))
    host = a_demand("own", least_level=Level.PROCESS, allowed_levels=frozenset(Level), image_kind=ImageKind.HOST)
    placements = planned(a_snapshot([node], [strong, host])).placements
    assert {placement.job_id: placement.level for placement in placements} == {
        "job": Level.GVISOR,
        "own": Level.PROCESS,
    }


# Place


def test_the_model_preferred_most_is_taken_while_it_fits() -> None:
    nodes = [a_node("a", *devices("a", 1, "T4", 16)), a_node("b", *devices("b", 8))]
    assert place_of(nodes, a_demand("job", gpus=1, models=("H100", "T4"))) == "b"
    assert place_of(nodes, a_demand("job", gpus=1, models=("T4", "H100"))) == "a"
    assert place_of(nodes, a_demand("job", gpus=2, models=("T4", "H100"))) == "b"


def test_the_fewest_devices_stay_free() -> None:
    nodes = [
        a_node("a", *devices("a", 8)),
        a_node("b", *devices("b", 8, held=5)),
        a_node("c", *devices("c", 8, held=4)),
    ]
    assert place_of(nodes, a_demand("job", gpus=2)) == "b"


def test_then_the_least_device_memory_is_spared_then_processors_then_the_name() -> None:
    small, large = devices("x", 1, "T4", 16), devices("y", 1, "H100", 80)
    assert place_of([a_node("a", *large), a_node("b", *small)], a_demand("job", gpus=1)) == "b"
    tight = a_node("b", *devices("b", 1), cpus_milli_free=2000)
    assert place_of([a_node("a", *devices("a", 1)), tight], a_demand("job", gpus=1)) == "b"
    assert place_of([a_node("b", *devices("b", 1)), a_node("a", *devices("a", 1))], a_demand("job", gpus=1)) == "a"


def test_jobs_without_gpus_do_not_strand_gpus() -> None:
    idle, busy = a_node("a", *devices("a", 2)), a_node("b", *devices("b", 8, held=8))
    assert place_of([idle, busy], a_demand("job")) == "b"
    assert place_of([idle, busy, a_node("c")], a_demand("job")) == "c"


def test_a_node_where_it_failed_is_taken_only_if_no_other_fits() -> None:
    nodes = [a_node("a", *devices("a", 1)), a_node("b", *devices("b", 8, "T4", 16))]
    demand = a_demand("job", gpus=1, models=("H100", "T4"), avoid=frozenset({NodeId("nod_a")}))
    assert place_of(nodes, demand) == "b"
    assert place_of(nodes[:1], demand) == "a"


# Quotas


def test_a_suspended_tenant_starts_nothing_nor_do_those_below_it() -> None:
    tenants = [a_tenant("org", is_active=False), a_tenant("ten", "org")]
    found = reason_of(a_snapshot([a_node("n")], [a_demand("job")], tenants))
    assert (found.code, found.numbers) == ("tenant_suspended", {"steps_up": 1})


def test_a_tenant_or_a_parent_that_is_not_in_the_snapshot_has_no_rights() -> None:
    assert reason_of(a_snapshot([a_node("n")], [a_demand("job")], [])).code == "tenant_suspended"
    orphan = [a_tenant("ten", "gone")]
    assert reason_of(a_snapshot([a_node("n")], [a_demand("job")], orphan)).code == "tenant_suspended"


def test_a_back_off_is_waited_out() -> None:
    demand = a_demand("job", not_before=NOW + 1_500_000)
    found = reason_of(a_snapshot([a_node("n")], [demand]))
    assert found.text == "starts at 1970-01-01T00:00:03Z at the earliest"
    assert found.numbers == {"not_before_us": 2_500_000}
    assert reason_of(a_snapshot([a_node("n")], [replace(demand, not_before=Instant(2**62))])).code == "back_off"
    assert place_of([a_node("n")], replace(demand, not_before=NOW)) == "n"


def test_running_jobs_are_limited_and_those_just_placed_count() -> None:
    tenants = [a_tenant("ten", running_limit=3, running=1)]
    snapshot = a_snapshot([a_node("n")], [a_demand(f"job{i}") for i in range(4)], tenants)
    assert started(snapshot) == ["job0", "job1"]
    found = reason_of(snapshot, "job2")
    assert found.code == "quota_running"
    assert found.text == "3 of the tenant's 3 running jobs; it starts when one of them ends"


def test_gpus_are_limited_by_model_and_in_all_and_the_reason_says_how_many() -> None:
    tenants = [a_tenant("ten", gpu_limit_milli={"*": 4000, "H100": 2000}, gpu_used_milli={"H100": 1000, "*": 1000})]
    nodes = [a_node("n", *devices("n", 8)), a_node("m", *devices("m", 8, "T4", 16))]
    assert reason_of(a_snapshot(nodes, [a_demand("job", gpus=2, models=("H100",))], tenants)).text == (
        "needs 2 H100; 1 of the tenant's 2 H100 in use; it starts when enough of them are released"
    )
    assert reason_of(a_snapshot(nodes, [a_demand("job", gpus=4, models=("T4",))], tenants)).text == (
        "needs 4 T4; 1 of the tenant's 4 GPUs in use; it starts when enough of them are released"
    )
    assert reason_of(a_snapshot(nodes, [a_demand("job", gpus=5)], tenants)).text.endswith("an admin can grant more")
    [placement] = planned(a_snapshot(nodes, [a_demand("job", gpus=2, models=("H100", "T4"))], tenants)).placements
    assert placement.models == ("T4", "T4"), "a model without quota leaves another accepted one"


def test_without_a_row_for_all_models_nothing_is_granted() -> None:
    tenants = [a_tenant("ten", gpu_limit_milli={"H100": 4000})]
    found = reason_of(a_snapshot([a_node("n", *devices("n", 8))], [a_demand("job", gpus=1)], tenants))
    assert found.text == "needs 1 GPU; the tenant's quota grants no GPU; an admin can grant more"


def test_the_quota_of_a_tenant_above_binds_and_its_use_is_not_told() -> None:
    org = a_tenant("org", gpu_limit_milli={"*": 4000}, gpu_used_milli={"H100": 3000, "*": 3000})
    tenants = [org, a_tenant("ten", "org")]
    found = reason_of(a_snapshot([a_node("n", *devices("n", 8))], [a_demand("job", gpus=2)], tenants))
    assert found.code == "quota_gpus"
    assert found.text == "needs 2 GPUs; the quota of a tenant above has no room for them"
    assert found.numbers == {"asked": 2, "steps_up": 1}


def test_waiting_for_devices_is_told_with_what_is_free_and_the_own_use() -> None:
    tenants = [a_tenant("ten", gpu_limit_milli={"*": 6000}, gpu_used_milli={"H100": 3000, "*": 3000})]
    found = reason_of(a_snapshot([a_node("n", *devices("n", 8, held=7))], [a_demand("job", gpus=2)], tenants))
    assert found.text == "needs 2 GPUs, 1 free of 8; 3 of the tenant's 6 GPUs in use"
    assert found.numbers == {
        "asked": 2, "free": 1, "total": 8, "most_on_one": 1, "used_milli": 3000, "limit_milli": 6000
    }  # fmt: skip


def test_amounts_that_are_there_but_on_different_nodes_are_told_apart() -> None:
    nodes = [a_node("a", cpus_milli_free=500), a_node("b", memory_bytes_free=0)]
    found = reason_of(a_snapshot(nodes, [a_demand("job")]))
    assert found.code == "no_room"
    assert found.text == (
        "needs 1 CPU, 1 GiB of memory and 0 bytes of scratch; the most that is free on one node is"
        " 64 CPUs, 512 GiB of memory and 1 TiB of scratch, but not all on the same one"
    )


def test_ten_thousand_waiting_jobs_are_one_question() -> None:
    queue = [a_demand(f"job{i:05}", gpus=2) for i in range(10_000)]
    outcome = planned(a_snapshot([a_node("n", *devices("n", 3))], queue))
    assert len(outcome.placements) == 1
    assert len({id(found) for found in outcome.waiting.values()}) == 1


def test_a_tenant_that_is_its_own_ancestor_does_not_hang_the_pass() -> None:
    tenants = [a_tenant("a", "b"), a_tenant("b", "a")]
    queue = [a_demand("of-a", "a"), a_demand("of-b", "b")]
    assert sorted(started(a_snapshot([a_node("n")], queue, tenants))) == ["of-a", "of-b"]


def test_a_later_start_and_a_full_array_say_so() -> None:
    later = a_demand("later", not_before=Instant(5_000_000), is_postponed=True)
    backed_off = a_demand("again", not_before=Instant(5_000_000))
    of_array = [a_demand(f"a{n}", array_id="arr") for n in range(3)]
    snapshot = replace(
        a_snapshot([a_node("n")], [later, backed_off, *of_array]), arrays={"arr": ArrayRoom(most_running=2, running=1)}
    )
    decided = plan(snapshot, Instant(0))
    assert [each.job_id for each in decided.placements] == ["a0"]
    codes = {job_id: reason.code for job_id, reason in decided.waiting.items()}
    assert codes == {"later": "not_before", "again": "back_off", "a1": "array_limit", "a2": "array_limit"}
