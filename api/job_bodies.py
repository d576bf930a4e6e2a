"""What a request that submits jobs may hold: a job, or one made from a template; and what both become."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from corral.batches import TemplatedJob, merged
from corral.jobs import JobSpec
from fastapi.exceptions import RequestValidationError
from pydantic import Discriminator, Tag, ValidationError

from api.problems import FROM_TEMPLATE, PLAIN
from api.transactions import Database
from domain.errors import NotFound
from domain.ids import TenantId
from store.templates import named_templates


def _kind(body: Any) -> str:
    is_templated = isinstance(body, TemplatedJob) or (isinstance(body, Mapping) and "template" in body)
    return FROM_TEMPLATE if is_templated else PLAIN


JobBody = Annotated[
    Annotated[JobSpec, Tag(PLAIN)] | Annotated[TemplatedJob, Tag(FROM_TEMPLATE)],
    Discriminator(_kind),
]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A job that is complete."""

    spec: JobSpec
    template: tuple[str, int] | None = None
    """Name and version of what it was made from."""


async def resolved(database: Database, tenant_id: TenantId, bodies: Sequence[JobSpec | TemplatedJob]) -> list[Resolved]:
    """The jobs, those from templates completed with what the tenant's templates say now.

    Raises:
        NotFound: the tenant has no such template.
        RequestValidationError: what comes of it is no valid job.
    """
    names = {body.template for body in bodies if isinstance(body, TemplatedJob)}
    if not names:
        return [Resolved(body) for body in bodies if isinstance(body, JobSpec)]
    found = await database.read(
        lambda session: {
            name: (each.version, each.fields) for name, each in named_templates(session, tenant_id, names).items()
        }
    )
    return [_completed(body, found) for body in bodies]


def _completed(body: JobSpec | TemplatedJob, found: Mapping[str, tuple[int, dict[str, Any]]]) -> Resolved:
    if isinstance(body, JobSpec):
        return Resolved(body)
    if body.template not in found:
        raise NotFound("template")
    version, fields = found[body.template]
    try:
        return Resolved(JobSpec.model_validate(merged(fields, body.changes)), (body.template, version))
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in error.errors()]) from None
