"""`corral logs`."""

import base64
import json
from typing import Annotated

import typer
from corral.cli.attend import Waiting
from corral.cli.options import AsJson, JobId, connect
from corral.cli.output import write_out
from corral.client import Client
from corral.following import JobEnd, LogChunk, LogEvent, StateChange
from corral.jobs import WaitReason


def logs(
    job: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job is over.")] = False,
    attempt: Annotated[int | None, typer.Option(min=1, help="Of this attempt; else of the latest one.")] = None,
    since: Annotated[int, typer.Option(min=0, help="From this byte on.")] = 0,
    tail: Annotated[int | None, typer.Option(min=0, help="Only so many last bytes.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print what a job wrote, byte for byte. With --json, an object on each line, its bytes in base64."""
    if follow and (attempt or since or tail is not None):
        raise typer.BadParameter("--follow shows every attempt from its start; leave the other options out")
    if since and tail is not None:
        raise typer.BadParameter("--since and --tail exclude each other")
    with connect() as client:
        if follow:
            _follow(client, job, as_json)
        elif tail is not None:
            part = client.log_part(job, attempt=attempt, tail=tail)
            _print_chunk(part.data, as_json)
        else:
            for data in client.log(job, attempt=attempt, since=since):
                _print_chunk(data, as_json)


def _follow(client: Client, job_id: str, as_json: bool) -> None:
    with Waiting() as waiting:
        for event in client.follow(job_id):
            if as_json:
                _print_object(_said(event))
            elif isinstance(event, LogChunk):
                waiting.stop()
                write_out(event.data)
            elif isinstance(event, WaitReason):
                waiting.say(f"waiting: {event.text}")
            else:
                waiting.stop()


def _said(event: LogEvent) -> dict[str, object]:
    if isinstance(event, LogChunk):
        text = base64.b64encode(event.data).decode("ascii")
        return {"event": "log", "attempt": event.attempt, "offset": event.offset, "data": text}
    if isinstance(event, WaitReason):
        return {"event": "reason", **event.model_dump(mode="json")}
    if isinstance(event, StateChange):
        return {"event": "state", "state": event.state}
    return _end(event)


def _end(event: JobEnd) -> dict[str, object]:
    return {"event": "end", "state": event.state, "exit_code": event.exit_code}


def _print_chunk(data: bytes, as_json: bool) -> None:
    if as_json:
        _print_object({"event": "log", "data": base64.b64encode(data).decode("ascii")})
    else:
        write_out(data)


def _print_object(said: dict[str, object]) -> None:
    write_out(json.dumps(said).encode() + b"\n")
