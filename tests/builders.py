"""Rows and values for tests, each with sensible defaults."""

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, select

from domain.ids import GpuId, JobId, NodeId, TenantId
from domain.levels import Level
from domain.quota_terms import GpuTerms, QuotaRules
from domain.scheduling.snapshot import Placement
from domain.states import JobState
from store.clock import now_us
from store.ids import new_id
from store.keys import hash_secret
from store.locks import lock_quotas, tree
from store.prices import set_price
from store.quota_settings import open_quota, set_quota
from store.quotas import add_queued
from store.tables import Gpu, Image, Job, Node, Tenant

GIB = 2**30


def a_tenant(
    session: Session, name: str = "lab", *, gpus: int | None = 8, parent: str | None = None, **more: Any
) -> str:
    tenant = Tenant(id=new_id("ten"), name=name, parent_id=parent, created_us=now_us(session))
    session.add(tenant)
    session.flush()
    open_quota(session, tenant.id)
    set_quota(session, tenant.id, some_rules(gpus=gpus, **more))
    return tenant.id


def some_rules(*, gpus: int | None = 8, most_queued: int = 10_000, most_running: int = 10_000) -> QuotaRules:
    return QuotaRules(
        gpus={"*": GpuTerms(None if gpus is None else gpus * 1000)},
        most_queued=most_queued,
        most_running=most_running,
        longest_time_limit_us=7 * 86_400_000_000,
        highest_priority=3,
        isolation_levels=("process", "container", "gvisor", "kata"),
        images=None,
    )


def a_node(session: Session, name: str = "node-1", *, gpus: int = 8, model: str = "H100", **more: Any) -> str:
    values: dict[str, Any] = {
        "state": "ready",
        "is_reachable": True,
        "boot_id": "boot-1",
        "levels": ["process", "container"],
        "beat": 1,
        "last_beat_us": now_us(session),
        "cpus_milli": 128_000,
        "memory_bytes": 1024 * GIB,
        "scratch_bytes": 1024 * GIB,
    } | more
    node = Node(id=new_id("nod"), name=name, token_sha256=hash_secret(name), created_us=now_us(session), **values)
    session.add(node)
    session.flush()
    for number in range(gpus):
        session.add(
            Gpu(
                id=new_id("gpu"),
                node_id=node.id,
                uuid=f"GPU-{name}-{number}",
                model=model,
                memory_bytes=80 * GIB,
                is_simulated=False,
                state="clean",
            )
        )
    session.flush()
    return node.id


def a_job(session: Session, tenant_id: str, *, gpus: int = 1, **more: Any) -> str:
    lock_quotas(session, [tenant_id])
    add_queued(session, dict.fromkeys(tree(session, tenant_id), 1))
    values: dict[str, Any] = {
        "state": JobState.QUEUED,
        "spec": {},
        "priority": 1,
        "image_name": "host",
        "image_kind": "host",
        "image_reference": "host",
        "least_level": "process",
        "time_limit_us": 3_600_000_000,
        "grace_us": 1_000_000,
        "max_unreachable_us": 900_000_000,
        "cpus_milli": 1000,
        "memory_bytes": GIB,
        "shm_bytes": 0,
        "scratch_bytes": 0,
        "output_bytes": GIB,
    } | more
    job = Job(id=new_id("job"), tenant_id=tenant_id, gpus=gpus, submitted_us=now_us(session), **values)
    session.add(job)
    session.flush()
    return job.id


def a_price(session: Session, micro_per_gpu_hour: int, model: str = "*") -> None:
    set_price(session, model, micro_per_gpu_hour)


def an_image(session: Session, name: str = "host", kind: str = "host", reference: str = "host") -> str:
    session.add(Image(name=name, kind=kind, reference=reference, created_us=now_us(session)))
    session.flush()
    return name


def a_placement(session: Session, job_id: str, node_id: str, gpus: Sequence[Gpu] | None = None) -> Placement:
    """Put the job on the node's first free devices."""
    job = session.get_one(Job, job_id)
    free = session.exec(select(Gpu).where(Gpu.node_id == node_id, Gpu.used_milli == 0, Gpu.state == "clean")).all()
    chosen = list(gpus if gpus is not None else free[: job.gpus])
    return Placement(
        job_id=JobId(job_id),
        tenant_id=TenantId(job.tenant_id),
        node_id=NodeId(node_id),
        gpu_ids=tuple(GpuId(gpu.id) for gpu in chosen),
        models=tuple(gpu.model for gpu in chosen),
        level=Level.PROCESS,
    )
