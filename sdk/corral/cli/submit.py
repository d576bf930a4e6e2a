"""`corral submit`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from corral.cli.attend import CANCELLED, attend, ending_text, exit_code_of
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id, merged, pairs, read
from corral.cli.output import note, print_json, print_line, write_error, write_out
from corral.client import Client
from corral.handles import Job
from corral.sending import read_fields

Text = str | None


def submit(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What to run.")] = None,
    spec: Annotated[Path | None, typer.Option(help="A JSON file with the job; options win over it.")] = None,
    image: Annotated[Text, typer.Option(help="A name from `corral images`.")] = None,
    name: Annotated[Text, typer.Option(help="A line for people.")] = None,
    gpus: Annotated[int | None, typer.Option(help="How many GPUs.")] = None,
    gpu_model: Annotated[list[str] | None, typer.Option(help="An accepted model; may be repeated.")] = None,
    gpu_memory_min: Annotated[Text, typer.Option(help='Least memory of each GPU, such as "40GiB".')] = None,
    cpus: Annotated[int | None, typer.Option(help="How many CPUs.")] = None,
    memory: Annotated[Text, typer.Option(help='Memory, such as "8GiB".')] = None,
    shm: Annotated[Text, typer.Option(help="Size of /dev/shm.")] = None,
    scratch: Annotated[Text, typer.Option(help="Size of the scratch space.")] = None,
    output: Annotated[Text, typer.Option(help="Most that may be left in /out.")] = None,
    time_limit: Annotated[Text, typer.Option(help='Such as "90s", "15m" or "1h30m".')] = None,
    grace: Annotated[Text, typer.Option(help="Time between being told to stop and being stopped.")] = None,
    isolation: Annotated[Text, typer.Option(help="Least level: process, container, gvisor or kata.")] = None,
    priority: Annotated[Text, typer.Option(help="low, normal, high or urgent.")] = None,
    preemptible: Annotated[bool, typer.Option("--preemptible", help="May be stopped for others.")] = False,
    max_unreachable: Annotated[Text, typer.Option(help='How long its node may be out of reach, or "never".')] = None,
    retry: Annotated[int | None, typer.Option(help="How often to try again.")] = None,
    retry_on: Annotated[list[str] | None, typer.Option(help='A cause, such as "oom" or "exit:75"; repeat.')] = None,
    array: Annotated[Text, typer.Option(metavar="COUNT[%MOST]", help="So many jobs, at most MOST at once.")] = None,
    after: Annotated[list[str] | None, typer.Option(metavar="JOB", help="Start when it has succeeded; repeat.")] = None,
    after_any: Annotated[list[str] | None, typer.Option(metavar="JOB", help="Start when it has ended.")] = None,
    after_failure: Annotated[list[str] | None, typer.Option(metavar="JOB", help="Start when it has failed.")] = None,
    not_before: Annotated[Text, typer.Option(help='"2026-12-01T08:00:00Z", or from now on "2h".')] = None,
    template: Annotated[Text, typer.Option(help="What it is made from; options win over it.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Found in /run/secrets; may be repeated.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=TEXT", help="May be repeated.")] = None,
    inputs: Annotated[
        list[Path] | None, typer.Option("--input", metavar="DIR", help="Sent, and found in /in; may be repeated.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it is over; exit as it does.")] = False,
    follow: Annotated[
        bool | None, typer.Option("--follow/--no-follow", help="Show its log live; on with --wait.")
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(help="Wait, then download its artifacts to here.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Queue a job. Prints its id, or stays with it and exits with its exit code."""
    said = {
        "image": image, "command": command or None, "name": name, "time_limit": time_limit, "grace": grace,
        "isolation": isolation, "priority": priority, "preemptible": preemptible or None,
        "max_unreachable": max_unreachable, "env": pairs(env or (), "NAME=VALUE"), "secrets": secret,
        "array": None if array is None else read(lambda: _array(array)),
        "after": [
            {"job": job, "on": on}
            for on, jobs in (("success", after), ("any", after_any), ("failure", after_failure))
            for job in jobs or ()
        ],
        "not_before": not_before,
        "labels": pairs(label or (), "NAME=TEXT"), "retry": {"limit": retry, "on": retry_on},
        "resources": {
            "gpus": gpus, "gpu_model": gpu_model, "gpu_memory_min": gpu_memory_min, "cpus": cpus,
            "memory": memory, "shm": shm, "scratch": scratch, "output": output,
        },
    }  # fmt: skip
    fields = merged(_file_fields(spec), said)
    if template is None:
        read(lambda: read_fields(fields))  # before anything is sent
    with connect() as client:
        owner = maybe_tenant_id(client, tenant)
        if inputs:
            fields["inputs"] = [*fields.get("inputs", []), *(_upload(client, path, owner) for path in inputs)]
        if template is None:
            job = client.submit(read(lambda: read_fields(fields)), tenant_id=owner)
        else:
            job = client.submit(template=template, tenant_id=owner, **fields)
        if not (wait or follow or output_dir):
            print_json(job.view) if as_json else print_line(job.view.array.id if job.view.array else job.id)
            return
        _stay(client, job, shows_log=follow is not False, as_json=as_json)
        if output_dir:
            _download(job, output_dir)
    raise typer.Exit(_told(job, as_json))


def _array(text: str) -> dict[str, int]:
    count, percent, most = text.partition("%")
    if not count.isdecimal() or (percent and not most.isdecimal()):
        raise ValueError(f"--array {text!r} is not written as 100 or 100%8")
    return {"count": int(count)} | ({"most_running": int(most)} if most else {})


def _file_fields(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        fields = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{file}: {error}", param_hint="--spec") from error
    if not isinstance(fields, dict):
        raise typer.BadParameter(f"{file} holds no JSON object", param_hint="--spec")
    return fields


def _upload(client: Client, source: Path, tenant_id: str | None) -> str:
    if not source.exists():
        raise typer.BadParameter(f"there is no {source}", param_hint="--input")
    return client.upload_input(source, tenant_id=tenant_id).sha256


def _stay(client: Client, job: Job, *, shows_log: bool, as_json: bool) -> None:
    """Until it is over; leaving early leaves the job alone."""
    write = write_error if as_json else write_out
    try:
        job.view = attend(client, job.id, write if shows_log else _no_bytes)
    except KeyboardInterrupt:
        note(f"{job.id} goes on. See it: corral logs -f {job.id}   End it: corral cancel {job.id}")
        raise typer.Exit(CANCELLED) from None


def _no_bytes(_data: bytes) -> None:
    """Where the log is not asked for."""


def _download(job: Job, directory: Path) -> None:
    for artifact in job.artifacts:
        note(f"{artifact.download(directory)}")


def _told(job: Job, as_json: bool) -> int:
    if as_json:
        print_json(job.view)
    if text := ending_text(job.view):
        note(text)
    return exit_code_of(job.view)
