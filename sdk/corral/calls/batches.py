"""Requests about many jobs at once, and jobs made from templates."""

from collections.abc import Sequence

from corral.batches import BatchSpec, TemplatedJob, TemplateSpec, TemplateView
from corral.call import PAGE_LIMIT, Call, act, create, delete, get, place, put
from corral.contract import Page
from corral.jobs import ArrayView, BatchView, JobSpec, JobView


def submit_templated(job: TemplatedJob, *, tenant_id: str | None = None) -> Call[JobView]:
    """Queue a job made from a template; `tenant_id` is for admins, whose key has no tenant."""
    return create(place("jobs"), JobView, job, tenant_id=tenant_id)


def submit_many(jobs: Sequence[JobSpec | TemplatedJob], *, tenant_id: str | None = None) -> Call[BatchView]:
    """Queue up to a thousand jobs, all or none; a later one may wait for an earlier one by `#` and its name."""
    batch = BatchSpec(jobs=[job.model_dump(mode="json", exclude_unset=True) for job in jobs])
    return create(place("jobs", "batch"), BatchView, batch, tenant_id=tenant_id)


def array(array_id: str) -> Call[ArrayView]:
    """An array, and how many of its jobs are in which state."""
    return get(place("arrays", array_id), ArrayView)


def cancel_array(array_id: str) -> Call[ArrayView]:
    """End every job of it that is not over."""
    return act(place("arrays", array_id, "cancel"), ArrayView, is_repeatable=True)


def templates(*, tenant_id: str | None = None) -> Call[Page[TemplateView]]:
    """The templates of the own tenant, or of one below it, by name."""
    return get(place("templates"), Page[TemplateView], limit=PAGE_LIMIT, tenant_id=tenant_id)


def template(name: str, *, tenant_id: str | None = None) -> Call[TemplateView]:
    """One template."""
    return get(place("templates", name), TemplateView, tenant_id=tenant_id)


def set_template(name: str, spec: TemplateSpec, *, tenant_id: str | None = None) -> Call[TemplateView]:
    """Keep a part of a job under this name, in the place of what was there."""
    return put(place("templates", name), TemplateView, spec, tenant_id=tenant_id)


def delete_template(name: str, *, tenant_id: str | None = None) -> Call[None]:
    """Forget a template. Jobs that were made from it stay as they are."""
    return delete(place("templates", name), tenant_id=tenant_id)
