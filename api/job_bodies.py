"""What a request that submits jobs may hold: a job, or one made from a template; and what both become."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import anyio
from corral.batches import TemplatedJob, merged
from corral.jobs import JobSpec
from fastapi.exceptions import RequestValidationError
from pydantic import Discriminator, Tag, ValidationError

from api.problems import FROM_TEMPLATE, PLAIN
from api.transactions import Database
from domain.errors import NotFound, TooLarge
from domain.ids import TenantId
from store.templates import named_templates


def _kind(body: Any) -> str:
    is_templated = isinstance(body, TemplatedJob) or (isinstance(body, Mapping) and "template" in body)
    return FROM_TEMPLATE if is_templated else PLAIN


JobBody = Annotated[
    Annotated[JobSpec, Tag(PLAIN)] | Annotated[TemplatedJob, Tag(FROM_TEMPLATE)],
    Discriminator(_kind),
]


Place = tuple[str | int, ...]
"""Where something stands in a request: `body`, `jobs`, 3."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A job that is complete."""

    spec: JobSpec
    template: tuple[str, int] | None = None
    """Name and version of what it was made from."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A template, as it stands."""

    version: int
    fields: dict[str, Any]

    @property
    def size_bytes(self) -> int:
        """As JSON."""
        return len(json.dumps(self.fields).encode())


async def resolved(
    database: Database,
    tenant_id: TenantId,
    bodies: Sequence[JobSpec | TemplatedJob],
    bytes_max: int,
    places: Sequence[Place],
) -> list[Resolved]:
    """The jobs, those from templates completed with what the tenant's templates say now.

    Args:
        bytes_max: how much the templates may add to all of them together.
        places: where each stands in the request.

    Raises:
        NotFound: the tenant has no such template.
        TooLarge: what the templates add is more than a body could hold.
        RequestValidationError: what comes of it is no valid job.
    """
    names = {body.template for body in bodies if isinstance(body, TemplatedJob)}
    if not names:
        return [Resolved(body) for body in bodies if isinstance(body, JobSpec)]
    found = await database.read(
        lambda session: {
            name: _Found(each.version, each.fields) for name, each in named_templates(session, tenant_id, names).items()
        }
    )
    return await anyio.to_thread.run_sync(partial(_completed, bodies, found, bytes_max, places))


def check_arrays(jobs: Sequence[Resolved], bytes_max: int) -> None:
    """Refuse arrays that would be stored as more bytes than that: each job of an array is a job of its own.

    Raises:
        TooLarge: they would.
    """
    arrays = [job.spec for job in jobs if job.spec.array is not None]
    if sum(len(spec.model_dump_json()) * spec.array.count for spec in arrays if spec.array) > bytes_max:
        raise TooLarge(f"the jobs of an array are at most {bytes_max} bytes together", "use a smaller command or env")


def _completed(
    bodies: Sequence[JobSpec | TemplatedJob], found: Mapping[str, _Found], bytes_max: int, places: Sequence[Place]
) -> list[Resolved]:
    """All of them, in a thread: few words may name a template often, and what comes of it is as bounded as a body."""
    asked = [body.template for body in bodies if isinstance(body, TemplatedJob)]
    if not found.keys() >= set(asked):
        raise NotFound("template")
    sizes = {name: each.size_bytes for name, each in found.items()}
    if sum(sizes[name] for name in asked) > bytes_max:
        raise TooLarge(f"jobs with what their templates add are at most {bytes_max} bytes together")
    return [_complete(body, found, place) for body, place in zip(bodies, places, strict=True)]


def _complete(body: JobSpec | TemplatedJob, found: Mapping[str, _Found], place: Place) -> Resolved:
    if isinstance(body, JobSpec):
        return Resolved(body)
    template = found[body.template]
    try:
        return Resolved(
            JobSpec.model_validate(merged(template.fields, body.changes)), (body.template, template.version)
        )
    except ValidationError as error:
        raise RequestValidationError([{**each, "loc": (*place, *each["loc"])} for each in error.errors()]) from None
