"""`corral audit`: who changed what, and whether the record of it is whole."""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from corral.audit import AuditChainView, AuditCheck
from corral.chains import first_bad
from corral.cli.numbers import moment_text
from corral.cli.options import AsJson, OfTenant, connect, maybe_tenant_id
from corral.cli.output import note, print_json, print_line, print_table

app = typer.Typer(no_args_is_help=True, help="Who changed what.")

HEAD, ENTRY = "head", "entry"
"""The kinds of line in an export: first the chains' heads, then every entry."""
Since = Annotated[int | None, typer.Option(help="From this moment on, in microseconds since the epoch.")]
Until = Annotated[int | None, typer.Option(help="Before this moment.")]
File = Annotated[Path | None, typer.Argument(help="What `corral audit export` wrote; without it, the server is asked.")]


@app.command("list")
def list_entries(
    actor: Annotated[str | None, typer.Option(help="Of this key or node.")] = None,
    what: Annotated[str | None, typer.Option(help='Such as "POST /jobs/{job_id}/cancel".')] = None,
    target: Annotated[str | None, typer.Option(help="To this thing, by its id.")] = None,
    since: Since = None,
    until: Until = None,
    tenant: OfTenant = None,
    most: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List changes, newest first."""
    with connect() as client:
        rows = client.audit(
            actor=actor, what=what, target=target, since=since, until=until, tenant_id=maybe_tenant_id(client, tenant)
        )
        found = [entry for entry, _ in zip(rows, range(most), strict=False)]
    if as_json:
        print_json(found)
        return
    print_table(
        ("WHEN", "ACTOR", "ROLE", "WHAT", "TARGET", "FROM", "CHANGES"),
        [(moment_text(e.at_us), e.actor, e.role, e.what, e.target, e.address, e.changes) for e in found],
    )


@app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="Where to write; it must not exist.")],
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Write everything as lines of JSON, which `corral audit verify FILE` checks with no server."""
    written = 0
    with connect() as client, file.open("x", encoding="utf-8") as stream:
        tenant_id = maybe_tenant_id(client, tenant)
        heads = _by_chain(client.verify_audit(tenant_id=tenant_id))
        for chain in heads.values():
            head = {"kind": HEAD, "chain": chain.chain, "length": chain.length, "head": chain.head}
            stream.write(json.dumps(head) + "\n")
        for entry in client.audit(tenant_id=tenant_id):
            if entry.chain not in heads or entry.seq > heads[entry.chain].length:
                continue  # written since
            stream.write(json.dumps({"kind": ENTRY, **entry.model_dump()}) + "\n")
            written += 1
    if as_json:
        print_json({"file": str(file), "entries": written})
    else:
        print_line(f"{written} entries written to {file}")


@app.command("verify")
def verify(file: File = None, tenant: OfTenant = None, as_json: AsJson = False) -> None:
    """Check the chains; exit 1 if one is not sound."""
    if file is None:
        with connect() as client:
            found = _check(_by_chain(client.verify_audit(tenant_id=maybe_tenant_id(client, tenant))).values())
    else:
        found = _checked(file)
    if as_json:
        print_json(found)
    for chain in found.chains if not as_json else []:
        state = "sound" if chain.is_sound else f"not sound from entry {chain.first_bad_seq} on: {chain.problem}"
        print_line(f"{chain.chain}: {chain.length} entries, {state}")
    if not found.is_sound:
        raise typer.Exit(1)


def _checked(file: Path) -> AuditCheck:
    lines = list(_lines(file))
    entries = sorted((each for each in lines if each["kind"] == ENTRY), key=lambda each: (each["chain"], each["seq"]))
    by_chain = {chain: list(group) for chain, group in groupby(entries, key=lambda each: each["chain"])}
    heads = {each["chain"]: each for each in lines if each["kind"] == HEAD}
    chains = [_chain(chain, heads.get(chain), by_chain.get(chain, [])) for chain in sorted({*heads, *by_chain})]
    return _check(chains)


def _check(chains: Iterable[AuditChainView]) -> AuditCheck:
    found = list(chains)
    return AuditCheck(is_sound=all(each.is_sound for each in found), chains=found)


def _by_chain(pieces: Iterable[AuditChainView]) -> dict[str, AuditChainView]:
    """What the last piece of each chain says: nothing follows after a flaw."""
    return {piece.chain: piece for piece in pieces}


def _chain(name: str, head: dict[str, Any] | None, entries: Iterable[dict[str, Any]]) -> AuditChainView:
    fields = ({key: value for key, value in each.items() if key != "kind"} for each in entries)
    length, last = (0, "") if head is None else (int(head["length"]), str(head["head"]))
    bad = first_bad(fields, length, last) if head else (1, "the file names no head of this chain")
    return AuditChainView(
        chain=name,
        length=length,
        head=last,
        checked=length,
        is_sound=bad is None,
        first_bad_seq=bad[0] if bad else None,
        problem=bad[1] if bad else "",
    )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                found = json.loads(line)
                if found["kind"] in (HEAD, ENTRY):
                    yield found
            except (ValueError, TypeError, KeyError):
                note(f"corral: line {number} of {file} is not of an export")
                raise typer.Exit(1) from None
