"""From what a worker says to what the store takes, and back."""

from collections.abc import Mapping, Sequence

from corral.node import (
    Assignment,
    AttemptStanding,
    DeviceReport,
    Ended,
    HeartbeatAnswer,
    ImageFindings,
    ImageTask,
    NodeFacts,
    Order,
    SandboxVerdict,
)

from api.views.images import signature_demand
from api.views.jobs import device_view
from domain.endings import Outcome
from domain.images import SignatureRule
from store import image_work
from store.attempts import Claimed, Standing
from store.devices_seen import DeviceSeen
from store.ends import Ending, Finding
from store.image_checks import Found
from store.nodes import Beat, Facts
from store.tables import Job


def facts(said: NodeFacts) -> Facts:
    """What the node is."""
    return Facts(
        boot_id=said.boot_id,
        agent_version=said.agent_version,
        kernel=said.kernel,
        driver_version=said.driver_version,
        cuda_driver=said.cuda_driver,
        cpus_milli=said.cpus_milli,
        memory_bytes=said.memory_bytes,
        scratch_bytes=said.scratch_bytes,
        levels=tuple(report.level for report in said.levels if report.is_offered),
        level_reports=tuple(report.model_dump() for report in said.levels),
        labels=said.labels,
        devices=devices_seen(said.devices),
        hints_password_sha256=said.hints_password_sha256,
    )


def devices_seen(reports: Sequence[DeviceReport]) -> tuple[DeviceSeen, ...]:
    """The node's devices."""
    return tuple(
        DeviceSeen(
            uuid=report.uuid,
            model=report.model,
            memory_bytes=report.memory_bytes,
            is_simulated=report.is_simulated,
            health=report.health,
            health_reason=report.health_reason,
            is_clean=report.is_clean,
            clean_reason=report.clean_reason,
            generation=report.generation,
        )
        for report in reports
    )


def heartbeat_answer(beat: Beat, tasks: Sequence[image_work.ImageTask]) -> HeartbeatAnswer:
    """What the worker is told in return."""
    return HeartbeatAnswer(
        beat=beat.beat,
        generations=beat.generations,
        verdicts=[
            SandboxVerdict(
                attempt_id=named.attempt_id,
                fence=named.fence,
                verdict=verdict.word.value,
                reason=verdict.reason,
            )
            for named, verdict in beat.verdicts
        ],
        assigned=[Assignment(attempt_id=each.attempt_id, fence=each.fence) for each in beat.assigned],
        images=[
            ImageTask(reference=task.reference, is_to_check=task.is_to_check, signature=signature_demand(task.rule))
            for task in tasks
        ],
    )


def found_image(said: ImageFindings) -> Found:
    """What a node found behind a reference."""
    return Found(
        reference=said.reference,
        findings=[each.model_dump() for each in said.findings],
        refusals=said.refusals,
        cuda=said.cuda,
        size_bytes=said.size_bytes,
        signed_by=said.signed_by,
        trouble=said.trouble,
    )


def order(claimed: Claimed, rule: SignatureRule | None) -> Order:
    """What a worker that claimed an attempt is to run."""
    job, attempt = claimed.job, claimed.attempt
    return Order.model_validate(
        {
            "attempt_id": attempt.id,
            "fence": attempt.fence,
            "job_id": job.id,
            "tenant_id": job.tenant_id,
            "level": attempt.level,
            "image_kind": job.image_kind,
            "image_reference": job.image_reference,
            "signature": signature_demand(rule),
            "command": job.spec["command"],
            "env": {**job.spec["env"], **_array_env(job)},
            "cpus_milli": job.cpus_milli,
            "memory_bytes": job.memory_bytes,
            "shm_bytes": job.shm_bytes,
            "scratch_bytes": job.scratch_bytes,
            "output_bytes": job.output_bytes,
            "devices": [device_view(gpu) for gpu in claimed.devices],
            "inputs": list(claimed.inputs),
            "secrets": job.spec.get("secrets", []),
            "time_limit_us": job.time_limit_us,
            "grace_us": job.grace_us,
            "max_unreachable_us": job.max_unreachable_us,
        }
    )


def _array_env(job: Job) -> dict[str, str]:
    """Which job of its array it is, if it is of one. No tenant can set these names."""
    if job.array_id is None:
        return {}
    return {
        "CORRAL_ARRAY_ID": job.array_id,
        "CORRAL_ARRAY_INDEX": str(job.array_index),
        "CORRAL_ARRAY_COUNT": str(job.spec["array"]["count"]),
    }


def standing(found: Standing) -> AttemptStanding:
    """Where an attempt stands."""
    return AttemptStanding(attempt_id=found.attempt_id, state=found.state, stop_reason=found.stop_reason)


def ending(said: Ended) -> Ending:
    """How an attempt ended."""
    return Ending(
        outcome=Outcome(said.outcome),
        exit_code=said.exit_code,
        error=said.error,
        prepare_us=said.prepare_us,
        run_us=said.run_us,
        stop_us=said.stop_us,
        fault_us=said.fault_us,
        isolation=said.isolation,
        skipped=[file.model_dump() for file in said.skipped],
    )


def findings(reports: Sequence[DeviceReport]) -> Mapping[str, Finding]:
    """What was seen on the attempt's devices afterwards, by UUID."""
    return {
        report.uuid: Finding(report.is_clean, report.clean_reason, report.health, report.health_reason)
        for report in reports
    }
