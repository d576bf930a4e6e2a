"""`corral batch` and `corral array`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from corral.batches import TemplatedJob
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, read
from corral.cli.output import print_fields, print_json, print_line
from corral.jobs import ArrayView, JobSpec
from corral.sending import read_fields

ArrayId = Annotated[str, typer.Argument(metavar="ARRAY", help="The array's id.")]


def batch(
    file: Annotated[Path, typer.Argument(help="A JSON list of jobs, or a job in each line; - for standard input.")],
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Queue many jobs, all or none. Prints an id for each, in their order."""
    jobs = read(lambda: [_job(fields) for fields in _jobs_in(file)])
    with connect() as client:
        made = client.submit_many(jobs, tenant_id=maybe_tenant_id(client, tenant))
    if as_json:
        print_json(made)
        return
    for made_id in made.ids:
        print_line(made_id)


def array(array: ArrayId, as_json: AsJson = False) -> None:
    """Show an array: how many of its jobs are in which state. Its jobs: corral ps --array."""
    with connect() as client:
        view = client.array(array)
    print_json(view) if as_json else print_array(view)


def print_array(view: ArrayView) -> None:
    """An array, for people."""
    print_fields(
        [
            ("array", view.id),
            ("jobs", str(view.count)),
            ("at once", "" if view.most_running is None else str(view.most_running)),
            ("states", ", ".join(f"{number} {state}" for state, number in sorted(view.states.items()))),
            ("submitted", moment_text(view.submitted_at)),
        ]
    )


def _jobs_in(file: Path) -> list[dict[str, Any]]:
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
        found = json.loads(text) if text.lstrip().startswith("[") else list(map(json.loads, _lines(text)))
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="FILE") from error
    if not all(isinstance(each, dict) for each in found):
        raise typer.BadParameter(f"{file} holds something that is no JSON object", param_hint="FILE")
    return list(found)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def _job(fields: dict[str, Any]) -> JobSpec | TemplatedJob:
    return TemplatedJob.model_validate(fields) if "template" in fields else read_fields(fields)
