"""`corral show`."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer
from corral.cli.jobs import devices_text, outcome_text
from corral.cli.numbers import moment_text, money_text, pull_text, seconds_text
from corral.cli.options import AsJson, JobId, connect
from corral.cli.output import print_fields, print_json, print_line, print_table
from corral.cli.text import command_text, count_text
from corral.jobs import AttemptView, EventView, JobView, Resources
from corral.ledger import LedgerEntryView
from corral.quantities import duration_text, size_text


def show(
    job: JobId,
    isolation: Annotated[bool, typer.Option("--isolation", help="What isolation was observed.")] = False,
    ledger: Annotated[bool, typer.Option("--ledger", help="Its lines in the ledger.")] = False,
    events: Annotated[bool, typer.Option("--events", help="What happened to it.")] = False,
    attempts: Annotated[bool, typer.Option("--attempts", help="Every try at running it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a job."""
    with connect() as client:
        found = client.job(job)
        entries = found.ledger() if ledger else []
        happened = found.events() if events else []
        tries = found.attempts() if attempts else []
    if as_json:
        more: dict[str, object] = {"ledger": entries} if ledger else {}
        more |= {"events": happened} if events else {}
        more |= {"attempt_list": tries} if attempts else {}
        print_json({**found.view.model_dump(mode="json"), **more})
        return
    print_fields(_job_fields(found.view))
    if attempts:
        _print_attempts(tries)
    if isolation:
        _print_isolation(found.view.attempt)
    if events:
        _print_events(happened)
    if ledger:
        _print_ledger(entries)


def _job_fields(view: JobView) -> list[tuple[str, str]]:
    spec, wanted, attempt = view.spec, view.spec.resources, view.attempt
    return [
        ("job", view.id),
        ("name", spec.name or ""),
        ("tenant", view.tenant_id),
        ("state", view.state),
        ("waits", f"{view.reason.text} ({view.reason.code})" if view.reason else ""),
        ("outcome", outcome_text(view)),
        ("error", view.error or ""),
        ("image", spec.image),
        ("command", command_text(spec.command)),
        ("asked for", _resources_text(wanted)),
        ("least level", spec.isolation or ""),
        ("priority", spec.priority),
        ("time limit", "" if spec.time_limit is None else duration_text(spec.time_limit)),
        ("labels", ", ".join(f"{name}={text}" for name, text in spec.labels.items())),
        ("inputs", ", ".join(spec.inputs)),
        ("submitted", moment_text(view.submitted_at)),
        ("started", moment_text(view.started_at)),
        ("ended", moment_text(view.ended_at)),
        ("attempts", str(view.attempts)),
        ("node", attempt.node if attempt else ""),
        ("image comes", pull_text(attempt.pull) if attempt and attempt.pull else ""),
        ("isolation", attempt.level if attempt else ""),
        ("devices", devices_text(attempt.devices) if attempt else ""),
        ("left behind", "; ".join(f"{s.get('name')}: {s.get('reason')}" for s in attempt.skipped) if attempt else ""),
    ]


def _resources_text(wanted: Resources) -> str:
    model = f" ({' or '.join(wanted.gpu_model)})" if wanted.gpu_model else ""
    counts = f"{count_text(wanted.gpus, 'GPU')}{model}, {count_text(wanted.cpus, 'CPU')}"
    return f"{counts}, {size_text(wanted.memory)} of memory"


def _print_isolation(attempt: AttemptView | None) -> None:
    print_line("")
    if attempt is None or attempt.isolation is None:
        print_line("No isolation is recorded: no attempt has started.")
        return
    record = dict(attempt.isolation)
    facts = record.pop("facts", [])
    print_fields([(name, value if isinstance(value, str) else json.dumps(value)) for name, value in record.items()])
    print_line("")
    print_table(
        ("FACT", "ASKED", "FOUND", "SOURCE"),
        [[str(fact.get(part, "")) for part in ("name", "asked", "found", "source")] for fact in facts],
    )


def _print_attempts(attempts: Sequence[AttemptView]) -> None:
    print_line("")
    print_table(
        ("ATTEMPT", "STATE", "NODE", "LEVEL", "DEVICES", "STARTED", "RAN", "OUTCOME", "ERROR"),
        [
            (
                str(a.number), a.state, a.node, a.level, devices_text(a.devices), moment_text(a.started_at),
                "" if a.run_us is None else seconds_text(a.run_us),
                f"{a.outcome or ''} {'' if a.exit_code is None else a.exit_code}".strip(), a.error or "",
            )
            for a in attempts
        ],
    )  # fmt: skip


def _print_events(events: Sequence[EventView]) -> None:
    print_line("")
    print_table(("AT", "WHAT", ""), [(moment_text(e.at), e.what, e.text) for e in events])


def _print_ledger(entries: Sequence[LedgerEntryView]) -> None:
    print_line("")
    print_table(
        ("SEQ", "KIND", "CAUSE", "GPU", "MODEL", "FROM", "TIME", "SHARE", "COST", "HASH"),
        [
            (
                str(e.seq), e.kind, e.cause, e.gpu_uuid, e.model, moment_text(e.from_us), seconds_text(e.duration_us),
                f"{e.share_milli}/1000", money_text(e.cost_micro), e.hash[:19],
            )
            for e in entries
        ],
    )  # fmt: skip
