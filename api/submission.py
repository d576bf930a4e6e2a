"""From a job as the contract has it to a job as the store takes it."""

from corral.jobs import PRIORITIES, JobSpec

from domain.levels import Level
from store.submissions import Submission


def submission(spec: JobSpec) -> Submission:
    """The same job, in the store's words."""
    needs = spec.resources
    return Submission(
        name=spec.name,
        spec=spec.model_dump(mode="json"),
        image=spec.image,
        least_level=None if spec.isolation is None else Level(spec.isolation),
        priority=PRIORITIES.index(spec.priority),
        time_limit_us=spec.time_limit,
        grace_us=spec.grace,
        max_unreachable_us=None if spec.max_unreachable == "never" else spec.max_unreachable,
        gpus=needs.gpus,
        models=needs.gpu_model,
        gpu_memory_min_bytes=needs.gpu_memory_min,
        cpus_milli=needs.cpus * 1000,
        memory_bytes=needs.memory,
        shm_bytes=needs.shm,
        scratch_bytes=needs.scratch,
        output_bytes=needs.output,
        retry_limit=spec.retry.limit,
        retry_on=spec.retry.on,
        inputs=spec.inputs,
    )
