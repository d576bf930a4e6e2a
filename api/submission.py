"""From a job as the contract has it to a job as the store takes it."""

from corral.jobs import PRIORITIES, JobSpec
from corral.quantities import start_us

from domain.dependencies import Condition
from domain.errors import Invalid
from domain.levels import Level
from store.orders import After, ArrayWish, Submission


def submission(spec: JobSpec, heartbeat_seconds: int, template: tuple[str, int] | None = None) -> Submission:
    """The same job, in the store's words.

    Raises:
        Invalid: its node would stop it between two heartbeats.
    """
    if spec.max_unreachable != "never" and spec.max_unreachable <= heartbeat_seconds * 10**6:
        raise Invalid(
            f"max_unreachable is to be longer than the {heartbeat_seconds}s between two heartbeats of a node",
            "leave it out for 15m",
        )
    needs, array = spec.resources, spec.array
    not_before_us, delay_us = (0, 0) if spec.not_before is None else start_us(spec.not_before)
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
        after=[After(each.job, Condition(each.on)) for each in spec.after],
        not_before_us=not_before_us,
        delay_us=delay_us,
        array=None if array is None else ArrayWish(array.count, array.first, array.step, array.most_running),
        template=template,
    )
