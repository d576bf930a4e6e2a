"""The rows of jobs that are queued now: gathered for all orders of a transaction, and written a table at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from domain.admission import CatalogueImage, Wish
from domain.ids import Instant, TenantId
from domain.scheduling.reasons import waiting_for_jobs
from domain.states import JobState
from store.admission import Devices
from store.base import table_of
from store.events import Happened, told
from store.ids import new_id
from store.orders import After, Order, Queued, Submission
from store.statements import Rows, take_steps
from store.tables import Job, JobArray, JobDependency, JobInput

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Admitted:
    """A submission that may be queued, with what was found for it."""

    job: Submission
    image: CatalogueImage
    wish: Wish
    waits: Sequence[After]
    """What it has to wait for: of what it named, all that has not ended."""


class NewJobs:
    """Rows to be written, in the order in which they refer to each other."""

    def __init__(self, now: Instant, devices: Devices) -> None:
        self._now = now
        self._devices = devices
        self._arrays: list[Row] = []
        self._jobs: list[Row] = []
        self._inputs: list[Row] = []
        self._dependencies: list[Row] = []
        self._wishes: list[tuple[str, TenantId, Submission]] = []

    @property
    def are_none(self) -> bool:
        """Whether nothing is to be written."""
        return not self._jobs

    def add(self, order: Order, admitted: Admitted) -> Queued:
        """One job, or all of an array."""
        job, array = admitted.job, admitted.job.array
        array_id = None if array is None else self._add_array(order, job)
        indexes = [None] if array is None else range(array.first, array.first + array.count * array.step, array.step)
        job_ids = [self._add_job(order, admitted, array_id, index) for index in indexes]
        return Queued(job_ids[0], order.tenant_id, self._now, len(admitted.waits), array_id, job_ids)

    def write(self, session: Session) -> None:
        """Write all of it."""
        added = (
            (JobArray, self._arrays),
            (Job, self._jobs),
            (JobInput, self._inputs),
            (JobDependency, self._dependencies),
        )
        happened = [
            Happened("submitted", tenant_id=tenant_id, job_id=job_id, text="the job was queued")
            for job_id, tenant_id, _ in self._wishes
        ]
        happened += self._device_warnings()
        rows = [Rows(table_of(row), rows) for row, rows in added if rows]
        take_steps(session, *rows, told(session, happened, self._now))

    def _add_array(self, order: Order, job: Submission) -> str:
        array_id = new_id("arr")
        self._arrays.append(
            {
                "id": array_id,
                "tenant_id": order.tenant_id,
                "count": job.count,
                "most_running": job.array.most_running if job.array else None,
                "running_used": 0,
                "unfinished": job.count,
                "unsuccessful": 0,
                "submitted_us": self._now,
            }
        )
        return array_id

    def _add_job(self, order: Order, admitted: Admitted, array_id: str | None, index: int | None) -> str:
        job_id, job = new_id("job"), admitted.job
        self._jobs.append(_row(job_id, order, admitted, self._now) | {"array_id": array_id, "array_index": index})
        self._inputs.extend({"job_id": job_id, "position": n, "sha256": each} for n, each in enumerate(job.inputs))
        self._dependencies.extend(
            {"job_id": job_id, "after_id": each.of, "condition": each.condition.value, "is_open": True}
            for each in admitted.waits
        )
        self._wishes.append((job_id, order.tenant_id, job))
        return job_id

    def _device_warnings(self) -> list[Happened]:
        """Not a refusal: a node that has such devices may join."""
        text = "no node known now has such devices; it waits until one joins"
        return [
            Happened("no_device_known", tenant_id=tenant_id, job_id=job_id, text=text)
            for job_id, tenant_id, job in self._wishes
            if job.gpus and self._devices.count(job.models, job.gpu_memory_min_bytes) < job.gpus
        ]


def _row(job_id: str, order: Order, admitted: Admitted, now: Instant) -> dict[str, Any]:
    job, image, wish = admitted.job, admitted.image, admitted.wish
    reason = waiting_for_jobs(len(admitted.waits)) if admitted.waits else None
    name, version = job.template or (None, None)
    return {
        "id": job_id,
        "tenant_id": order.tenant_id,
        "key_id": order.author.key_id,
        "member_id": order.author.member_id,
        "name": job.name,
        "state": JobState.QUEUED.value,
        "spec": job.spec,
        "priority": job.priority,
        "image_name": image.name,
        "image_kind": image.kind.value,
        "image_reference": image.reference,
        "min_cuda": image.min_cuda,
        "least_level": wish.least_level.value,
        "time_limit_us": wish.time_limit_us,
        "grace_us": job.grace_us,
        "max_unreachable_us": job.max_unreachable_us,
        "gpus": job.gpus,
        "models": list(job.models),
        "gpu_memory_min_bytes": job.gpu_memory_min_bytes,
        "cpus_milli": job.cpus_milli,
        "memory_bytes": job.memory_bytes,
        "shm_bytes": job.shm_bytes,
        "scratch_bytes": job.scratch_bytes,
        "output_bytes": job.output_bytes,
        "retry_limit": job.retry_limit,
        "retry_on": list(job.retry_on),
        "fence": 0,
        "tries_by_tenant": 0,
        "tries_by_platform": 0,
        "not_before_us": job.not_before_us or (now + job.delay_us if job.delay_us else 0),
        "avoid_nodes": [],
        "cancel_requested": False,
        "submitted_us": now,
        "waits_for": len(admitted.waits),
        "reason_code": None if reason is None else reason.code,
        "reason_text": None if reason is None else reason.text,
        "reason_numbers": None if reason is None else dict(reason.numbers),
        "template_name": name,
        "template_version": version,
    }
