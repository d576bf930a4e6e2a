"""Jobs, attempts, events and artifacts, as they are shown."""

from corral.jobs import (
    ArrayPlace,
    ArrayView,
    ArtifactView,
    AttemptView,
    DeviceView,
    EventView,
    InputView,
    JobSpec,
    JobView,
    TemplateUse,
    WaitReason,
)
from corral.pulls import PullProgress

from domain.scheduling.reasons import waiting_for_jobs
from domain.states import JobState
from store.arrays import ArrayRecord
from store.dependencies import DEPENDENCY_FAILED
from store.jobs import AttemptRecord, JobRecord, NumberedEvent
from store.orders import Queued
from store.tables import Artifact, Gpu, Job, StoredInput

NOT_LOOKED_AT = WaitReason(code="not_looked_at_yet", text="the scheduler looks at it in its next pass")


def job_view(record: JobRecord) -> JobView:
    """A job with its latest attempt."""
    job = record.job
    return JobView(
        id=job.id,
        tenant_id=job.tenant_id,
        state=job.state,
        reason=wait_reason(job),
        outcome=job.outcome,
        exit_code=job.exit_code,
        error=job.error,
        spec=JobSpec.model_validate(job.spec),
        submitted_at=job.submitted_us,
        started_at=job.started_us,
        ended_at=job.ended_us,
        attempts=record.attempts,
        attempt=None if record.latest is None else attempt_view(record.latest),
        array=_array_place(job),
        template=_template_use(job.template_name, job.template_version),
    )


def queued_view(spec: JobSpec, queued: Queued, template: tuple[str, int] | None = None) -> JobView:
    """A job, or the first of an array, that was queued a moment ago."""
    waits = waiting_for_jobs(queued.waits_for) if queued.waits_for else None
    array = spec.array
    return JobView(
        id=queued.job_id,
        tenant_id=queued.tenant_id,
        state=JobState.QUEUED,
        reason=NOT_LOOKED_AT if waits is None else WaitReason(code=waits.code, text=waits.text, numbers=waits.numbers),
        outcome=None,
        exit_code=None,
        error=None,
        spec=spec,
        submitted_at=queued.submitted_us,
        started_at=None,
        ended_at=None,
        attempts=0,
        attempt=None,
        array=ArrayPlace(id=queued.array_id, index=array.first, count=array.count)
        if array and queued.array_id
        else None,
        template=_template_use(*template) if template else None,
    )


def array_view(record: ArrayRecord) -> ArrayView:
    """An array."""
    array = record.array
    return ArrayView(
        id=array.id,
        tenant_id=array.tenant_id,
        count=array.count,
        most_running=array.most_running,
        states=dict(record.states),
        submitted_at=array.submitted_us,
    )


def _array_place(job: Job) -> ArrayPlace | None:
    if job.array_id is None or job.array_index is None:
        return None
    return ArrayPlace(id=job.array_id, index=job.array_index, count=job.spec["array"]["count"])


def _template_use(name: str | None, version: int | None) -> TemplateUse | None:
    return None if name is None or version is None else TemplateUse(name=name, version=version)


def wait_reason(job: Job) -> WaitReason | None:
    """Why it waits, while it does; or why it was cancelled, if what it waited for can no longer come."""
    if job.state == "cancelled" and job.reason_code == DEPENDENCY_FAILED:
        return WaitReason(code=DEPENDENCY_FAILED, text=job.error or "")
    if job.state not in ("queued", "held"):
        return None
    if job.reason_code is None:
        return NOT_LOOKED_AT
    return WaitReason(code=job.reason_code, text=job.reason_text or "", numbers=job.reason_numbers or {})


def attempt_view(record: AttemptRecord) -> AttemptView:
    """An attempt with its node and its devices."""
    attempt = record.attempt
    return AttemptView(
        id=attempt.id,
        number=attempt.number,
        state=attempt.state,
        node=record.node_name,
        level=attempt.level,
        fence=attempt.fence,
        devices=[device_view(gpu) for gpu in record.devices],
        outcome=attempt.outcome,
        exit_code=attempt.exit_code,
        error=attempt.error,
        assigned_at=attempt.assigned_us,
        claimed_at=attempt.claimed_us,
        started_at=attempt.started_us,
        ended_at=attempt.ended_us,
        prepare_us=attempt.prepare_us,
        run_us=attempt.run_us,
        stop_us=attempt.stop_us,
        pull=None if attempt.pull is None or attempt.state != "preparing" else PullProgress(**attempt.pull),
        isolation=attempt.isolation,
        skipped=attempt.skipped,
    )


def device_view(gpu: Gpu) -> DeviceView:
    """A device that an attempt holds or held."""
    return DeviceView(uuid=gpu.uuid, model=gpu.model, is_simulated=gpu.is_simulated)


def event_view(numbered: NumberedEvent) -> EventView:
    """Something that happened."""
    number, event = numbered.number, numbered.event
    return EventView(
        id=number, at=event.at_us, what=event.what, attempt_id=event.attempt_id, text=event.text, data=event.data
    )


def artifact_view(artifact: Artifact) -> ArtifactView:
    """A file that a job left."""
    return ArtifactView(
        name=artifact.name, size_bytes=artifact.size_bytes, sha256=artifact.sha256, attempt_id=artifact.attempt_id
    )


def input_view(held: StoredInput) -> InputView:
    """A stored input."""
    return InputView(sha256=held.sha256, size_bytes=held.size_bytes)
