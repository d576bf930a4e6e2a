"""Jobs from templates, and many jobs at once."""

from typing import Annotated, Any

from corral.contract import Name, Request, View
from corral.jobs import BATCH_MAX, JobSpec
from pydantic import ConfigDict, Field, ValidationError, field_validator


class TemplatedJob(Request):
    """A job made from a template: what else is said here wins over it, down into objects; null takes a field out."""

    model_config = ConfigDict(extra="allow")

    template: Name

    @property
    def changes(self) -> dict[str, Any]:
        """What is said beside the template's name."""
        return dict(self.model_extra or {})


class BatchSpec(Request):
    """Jobs that are queued all together, or not at all. Each is a job, or one made from a template."""

    jobs: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=BATCH_MAX)]


class TemplateSpec(Request):
    """A part of a job, to be kept under a name."""

    job: dict[str, Any]

    @field_validator("job")
    @classmethod
    def _fits(cls, job: dict[str, Any]) -> dict[str, Any]:
        """What it says must fit into a job; what a job needs beside it may be said later."""
        try:
            JobSpec.model_validate(merged({"image": "any", "command": ["any"]}, job))
        except ValidationError as error:
            first = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return merged({}, job)  # a field that is null says nothing


class TemplateView(View):
    """A template. Its version grows with each change."""

    name: str
    version: int
    job: dict[str, Any]
    changed_at: int


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` (RFC 7396): objects are merged, null takes a field out, all else replaces."""
    found = {name: value for name, value in base.items() if name not in changes}
    for name, value in changes.items():
        inner = base.get(name)
        if isinstance(value, dict):
            found[name] = merged(inner if isinstance(inner, dict) else {}, value)
        elif value is not None:
            found[name] = value
    return found
