"""What holds of every plan, whatever the cluster, the tenants and the queue."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from domain.ids import GpuId, Instant, JobId, NodeId, TenantId
from domain.levels import ImageKind, Level, runs_at
from domain.scheduling.capacity import feasible
from domain.scheduling.plan import plan
from domain.scheduling.snapshot import Demand, Device, Node, Placement, Plan, Snapshot, TenantShare
from tests.clusters import GIB, a_demand, a_node, a_snapshot, a_tenant

NOW = Instant(100)
MODELS = ("A100", "H100", "T4")
CODES = {
    "quota_gpus", "quota_borrowing", "quota_running", "tenant_suspended", "back_off", "no_node", "no_level",
    "no_model", "no_memory", "no_driver", "no_device", "no_room",
}  # fmt: skip
FOR_EVER = {"no_level", "no_model", "no_memory", "no_driver"}

level_sets = st.frozensets(st.sampled_from(Level), min_size=1)
cuda = st.none() | st.sampled_from([(11, 8), (12, 4), (12, 8)])
limits = st.none() | st.integers(0, 6).map(lambda gpus: gpus * 1000)


@st.composite
def node_lists(draw: st.DrawFn) -> tuple[Node, ...]:
    made = []
    for i in range(draw(st.integers(0, 4))):
        held = tuple(
            Device(GpuId(f"gpu_{i}_{j}"), f"GPU-{i}-{j}", model, memory_gib * GIB, is_free)
            for j, (model, memory_gib, is_free) in enumerate(
                draw(st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from([40, 80]), st.booleans()), max_size=6))
            )
        )
        cpus_milli = draw(st.sampled_from([2000, 8000]))
        node = a_node(
            f"n{i}",
            *held,
            is_open=draw(st.sampled_from([True, True, False])),
            levels=draw(level_sets),
            cuda_driver=draw(cuda),
            cpus_milli=cpus_milli,
            cpus_milli_free=draw(st.integers(0, cpus_milli)),
            memory_bytes=16 * GIB,
        )
        made.append(node)
    return tuple(made)


@st.composite
def tenant_trees(draw: st.DrawFn) -> tuple[TenantShare, ...]:
    """Up to six tenants, each under an earlier one or under none; some are over a quota that was lowered."""
    made: list[TenantShare] = []
    for i in range(draw(st.integers(1, 6))):
        used = draw(st.dictionaries(st.sampled_from(MODELS), st.integers(0, 3).map(lambda gpus: gpus * 1000)))
        tenant = a_tenant(
            f"t{i}",
            draw(st.none() | st.sampled_from([share.tenant_id for share in made])) if made else None,
            weight=draw(st.integers(1, 3)),
            is_active=draw(st.sampled_from([True, True, True, False])),
            gpu_limit_milli=draw(st.dictionaries(st.sampled_from(MODELS), limits)) | {"*": draw(limits)},
            gpu_used_milli=used | {"*": sum(used.values())},
            running_limit=draw(st.none() | st.integers(0, 5)),
            running=draw(st.integers(0, 3)),
            gpu_promised_milli=draw(
                st.dictionaries(st.sampled_from([*MODELS, "*"]), st.integers(1, 4).map(lambda gpus: gpus * 1000))
            ),
        )
        made.append(tenant)
    return tuple(made)


@st.composite
def demands(draw: st.DrawFn, name: str, tenants: tuple[TenantShare, ...], node_ids: Sequence[NodeId]) -> Demand:
    return a_demand(
        name,
        draw(st.sampled_from([share.tenant_id for share in tenants])),
        priority=draw(st.integers(0, 2)),
        submitted_at=draw(st.integers(0, 3)),
        not_before=draw(st.sampled_from([0, 0, 0, NOW, NOW + 1])),
        gpus=draw(st.sampled_from([0, 1, 1, 2, 3])),
        models=tuple(draw(st.lists(st.sampled_from(MODELS), unique=True))),
        gpu_memory_min_bytes=draw(st.sampled_from([0, 0, 60 * GIB])),
        cpus_milli=draw(st.integers(1, 4)) * 1000,
        memory_bytes=draw(st.integers(1, 8)) * GIB,
        least_level=draw(st.sampled_from(Level)),
        allowed_levels=draw(level_sets),
        image_kind=draw(st.sampled_from(ImageKind)),
        min_cuda=draw(cuda),
        avoid=draw(st.frozensets(st.sampled_from(node_ids))) if node_ids else frozenset(),
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    nodes, tenants = draw(node_lists()), draw(tenant_trees())
    node_ids = [node.node_id for node in nodes]
    count = draw(st.integers(0, 12))
    return a_snapshot(nodes, [draw(demands(f"job{i:02}", tenants, node_ids)) for i in range(count)], tenants)


def lines(snapshot: Snapshot, outcome: Plan) -> Iterator[tuple[Placement, Demand, Node, list[Device]]]:
    """Each placement beside what it is about."""
    queue = {demand.job_id: demand for demand in snapshot.queue}
    nodes = {node.node_id: node for node in snapshot.nodes}
    for placement in outcome.placements:
        node = nodes[placement.node_id]
        by_id = {device.gpu_id: device for device in node.devices}
        yield placement, queue[placement.job_id], node, [by_id[gpu_id] for gpu_id in placement.gpu_ids]


def ancestry(snapshot: Snapshot, tenant_id: TenantId | None) -> Iterator[TenantShare]:
    while tenant_id is not None:
        share = snapshot.tenants[tenant_id]
        yield share
        tenant_id = share.parent_id


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_every_job_is_placed_or_has_a_reason_with_numbers(snapshot: Snapshot) -> None:
    outcome = plan(snapshot, NOW)
    placed = [placement.job_id for placement in outcome.placements]
    assert len(placed) == len(set(placed))
    assert set(placed) | set(outcome.waiting) == {demand.job_id for demand in snapshot.queue}
    assert not set(placed) & set(outcome.waiting)
    for reason in outcome.waiting.values():
        assert reason.code in CODES
        assert reason.text
        assert reason.numbers


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_no_device_has_two_holders_and_no_node_gives_more_than_it_has(snapshot: Snapshot) -> None:
    outcome = plan(snapshot, NOW)
    held = [gpu_id for placement in outcome.placements for gpu_id in placement.gpu_ids]
    assert len(held) == len(set(held))
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for placement, demand, _, _ in lines(snapshot, outcome):
        cpus[placement.node_id] += demand.cpus_milli
        memory[placement.node_id] += demand.memory_bytes
    for node in snapshot.nodes:
        assert cpus[node.node_id] <= node.cpus_milli_free
        assert memory[node.node_id] <= node.memory_bytes_free


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_every_need_of_a_placed_job_is_met_and_its_level_is_never_weaker(snapshot: Snapshot) -> None:
    for placement, demand, node, devices in lines(snapshot, plan(snapshot, NOW)):
        assert node.is_open
        assert demand.not_before <= NOW
        assert placement.tenant_id == demand.tenant_id
        assert placement.level in node.levels & demand.allowed_levels
        assert placement.level.strength >= demand.least_level.strength
        assert runs_at(demand.image_kind, placement.level)
        assert len(devices) == demand.gpus
        assert placement.models == tuple(device.model for device in devices)
        assert len(set(placement.models)) <= 1
        for device in devices:
            assert device.is_free
            assert device.memory_bytes >= demand.gpu_memory_min_bytes
            assert not demand.models or device.model in demand.models
            assert demand.min_cuda is None or (node.cuda_driver is not None and node.cuda_driver >= demand.min_cuda)


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_no_quota_is_exceeded_at_any_level_of_the_tree(snapshot: Snapshot) -> None:
    running: Counter[TenantId] = Counter()
    gpus: Counter[tuple[TenantId, str]] = Counter()
    for placement in plan(snapshot, NOW).placements:
        for share in ancestry(snapshot, placement.tenant_id):
            assert share.is_active
            running[share.tenant_id] += 1
            for row in {*placement.models, "*"}:
                gpus[share.tenant_id, row] += 1000 * len(placement.gpu_ids)
    for share in snapshot.tenants.values():
        if running[share.tenant_id] and share.running_limit is not None:
            assert share.running + running[share.tenant_id] <= share.running_limit
        for row, limit in share.gpu_limit_milli.items():
            if gpus[share.tenant_id, row] and limit is not None:
                assert share.gpu_used_milli.get(row, 0) + gpus[share.tenant_id, row] <= limit


@given(snapshots(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_in_which_things_are_handed_over_changes_nothing(snapshot: Snapshot, random: Random) -> None:
    nodes = [replace(node, devices=tuple(random.sample(node.devices, len(node.devices)))) for node in snapshot.nodes]
    tenants = list(snapshot.tenants.values())
    queue = list(snapshot.queue)
    for handed_over in (nodes, tenants, queue):
        random.shuffle(handed_over)
    assert plan(a_snapshot(nodes, queue, tenants), NOW) == plan(snapshot, NOW)


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_what_is_called_impossible_is_so_on_the_empty_cluster_too_and_what_runs_is_not(snapshot: Snapshot) -> None:
    outcome = plan(snapshot, NOW)
    queue = {demand.job_id: demand for demand in snapshot.queue}
    for job_id, reason in outcome.waiting.items():
        if reason.code in FOR_EVER:
            assert feasible(queue[job_id], snapshot.nodes) == reason
    for placement in outcome.placements:
        assert feasible(queue[placement.job_id], snapshot.nodes) is None


@given(snapshots())
@settings(max_examples=60, deadline=None)
def test_nothing_is_left_waiting_that_a_second_pass_would_place(snapshot: Snapshot) -> None:
    """A pass places all it can: a job that waits would wait as well if it came alone after the others."""
    first = plan(snapshot, NOW)
    after = _applied(snapshot, first)
    assert plan(after, NOW).placements == ()


def _applied(snapshot: Snapshot, outcome: Plan) -> Snapshot:
    """The moment after the plan was carried out."""
    nodes = {node.node_id: node for node in snapshot.nodes}
    tenants = dict(snapshot.tenants)
    placed: set[JobId] = set()
    for placement, demand, _, _ in lines(snapshot, outcome):
        node = nodes[placement.node_id]
        nodes[placement.node_id] = replace(
            node,
            cpus_milli_free=node.cpus_milli_free - demand.cpus_milli,
            memory_bytes_free=node.memory_bytes_free - demand.memory_bytes,
            scratch_bytes_free=node.scratch_bytes_free - demand.scratch_bytes,
            devices=tuple(
                replace(device, is_free=device.is_free and device.gpu_id not in placement.gpu_ids)
                for device in node.devices
            ),
        )
        for share in ancestry(snapshot, placement.tenant_id):
            grown = tenants[share.tenant_id]
            used = dict(grown.gpu_used_milli)
            for row in {*placement.models, "*"}:
                used[row] = used.get(row, 0) + 1000 * len(placement.gpu_ids)
            tenants[share.tenant_id] = replace(grown, running=grown.running + 1, gpu_used_milli=used)
        placed.add(placement.job_id)
    return Snapshot(tuple(nodes.values()), tenants, tuple(d for d in snapshot.queue if d.job_id not in placed))
