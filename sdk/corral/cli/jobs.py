"""`corral ps`, `cancel`, `hold` and `release`."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated

import typer
from corral.call import PAGE_LIMIT
from corral.cli.batch import print_array
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, JobId, OfTenant, connect, maybe_tenant_id
from corral.cli.output import print_json, print_line, print_table
from corral.jobs import DeviceView, JobView
from corral.sending import TERMINAL_STATES

ACTIVE_STATES = ("held", "queued", "running")
"""In the order in which a job passes through them, so that the latest answer about it counts."""


def ps(
    everything: Annotated[bool, typer.Option("--all", "-a", help="Jobs that are over, too.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Most jobs to show.")] = 50,
    state: Annotated[str | None, typer.Option(help="Only in this state.")] = None,
    name: Annotated[str | None, typer.Option(help="Only with this name.")] = None,
    array: Annotated[str | None, typer.Option(help="Only of this array.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    states = (state,) if state else ((None,) if everything else ACTIVE_STATES)
    with connect() as client:
        of = maybe_tenant_id(client, tenant)
        page = min(limit, PAGE_LIMIT)
        # by id: a job that moves on between two of the questions is not shown twice
        found = {
            view.id: view
            for one in states
            for view in islice(client.jobs(state=one, name=name, array=array, tenant_id=of, limit=page), limit)
        }
    shown = sorted(found.values(), key=lambda view: (view.submitted_at, view.id), reverse=True)[:limit]
    if as_json:
        print_json(shown)
    else:
        print_table(
            ("JOB", "NAME", "STATE", "DEVICES", "SUBMITTED", ""),
            [(v.id, v.spec.name or "", v.state, _devices(v), moment_text(v.submitted_at), _remark(v)) for v in shown],
        )


def cancel(job: JobId, as_json: AsJson = False) -> None:
    """End a job, or by the id of an array all of its jobs. One that runs is told to stop, and has its grace."""
    with connect() as client:
        if job.startswith("arr_"):
            array = client.cancel_array(job)
            print_json(array) if as_json else print_array(array)
            return
        view = client.cancel(job)
    if as_json or view.state in TERMINAL_STATES:
        _print_state(view, as_json)
    else:
        print_line(f"{view.id} {view.state}, told to stop")


def hold(job: JobId, as_json: AsJson = False) -> None:
    """Keep a job from starting."""
    with connect() as client:
        _print_state(client.hold(job), as_json)


def release(job: JobId, as_json: AsJson = False) -> None:
    """Let a held job start."""
    with connect() as client:
        _print_state(client.release(job), as_json)


def devices_text(devices: Sequence[DeviceView]) -> str:
    """Devices by kind; a simulated one is called so."""
    kinds = [f"{device.model}{' (simulated)' if device.is_simulated else ''}" for device in devices]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds))


def outcome_text(view: JobView) -> str:
    """How it ended; nothing while it has not."""
    if view.outcome is None:
        return ""
    code = "" if view.exit_code is None else f" {view.exit_code}"
    return f"{view.outcome}{code}"


def _print_state(view: JobView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id} {view.state}")


def _devices(view: JobView) -> str:
    if view.attempt and view.attempt.devices:
        return devices_text(view.attempt.devices)
    wanted = view.spec.resources
    return f"{wanted.gpus} x {' or '.join(wanted.gpu_model) or 'any'}" if wanted.gpus else ""


def _remark(view: JobView) -> str:
    if view.reason:
        return view.reason.text
    return outcome_text(view)
