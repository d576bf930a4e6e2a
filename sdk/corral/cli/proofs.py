"""`corral receipt`, `corral usage verify` and what they check with: nothing here that verifies asks a server."""

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from corral.cli.numbers import moment_text, money_text
from corral.cli.options import AsJson, JobId, OfTenant, connect, maybe_tenant_id
from corral.cli.output import note, print_json, print_line, write_out
from corral.errors import CorralError
from corral.pins import Pins, pins_file
from corral.receipts import GPU_HOUR, Proven, verify_receipt
from corral.seals import SealProven, compare_with_seal, verify_seal
from corral.signed import NotProven, TrustedKeys, key_id_of, public_key

HOUR_US = GPU_HOUR // 1000


class NoSeal(CorralError):
    code = "not_found"


def receipt(job_id: JobId, as_json: AsJson = True) -> None:
    """Print a job's receipt, as JSON: what it used and cost, signed by the server."""
    with connect() as client:
        print_json(client.receipt(job_id))


def chain(tenant: OfTenant = None, as_json: AsJson = True) -> None:
    """Print every entry of the tenant's chain, a line of JSON each."""
    with connect() as client:
        for piece in client.chain_export(tenant_id=maybe_tenant_id(client, tenant)):
            write_out(piece)


def seal(
    number: Annotated[int | None, typer.Argument(metavar="[NUMBER]", help="Of a seal; else the newest.")] = None,
    tenant: OfTenant = None,
    as_json: AsJson = True,
) -> None:
    """Print a seal as JSON, and the proof that the head of the tenant's chain is in it."""
    with connect() as client:
        if number is None:
            newest = next(iter(client.seals()), None)
            if newest is None:
                raise NoSeal("there is no seal yet", "one is made after each midnight, UTC")
            number = newest.number
        print_json(client.seal(number, tenant_id=maybe_tenant_id(client, tenant)))


def pin(as_json: AsJson = False) -> None:
    """Keep the server's public keys, so that receipts can be checked later without it."""
    with connect() as client:
        url, found = client.settings.url, client.signing_keys()
    pins, now_us = Pins.read(), time.time_ns() // 1000
    told = {key_id_of(public_key(view.public_key)): view for view in found.keys}  # named by the key, whatever is said
    new = [key_id for key_id, view in told.items() if pins.add(key_id, view.public_key, url, now_us)]
    pins.write()
    if as_json:
        print_json({"url": url, "pinned": list(told), "new": new})
        return
    for key_id in told:
        print_line(f"{key_id} {'is pinned now' if key_id in new else 'was pinned before'}, as told by {url}")
    note(f"kept in {pins_file()}; compare a new key's name with what the operator tells you by another way")


def verify(
    file: Annotated[Path, typer.Argument(metavar="RECEIPT", help="A receipt, as `corral receipt` printed it.")],
    key: Annotated[
        list[Path] | None, typer.Option(help="The server's public key, in PEM; else those that were pinned.")
    ] = None,
    seal_file: Annotated[Path | None, typer.Option("--seal", help="A seal, as `corral usage seal` printed it.")] = None,
    chain_file: Annotated[
        Path | None, typer.Option("--chain", help="The chain, as `corral usage chain` printed it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a receipt with no server; exit 1 if anything in it does not hold."""
    keys = _trusted(key or [])
    document = _read_json(file)
    proven = verify_receipt(document, keys)
    sealed, covered = None, 0
    if seal_file is not None:
        sealed = verify_seal(_read_json(seal_file), keys)
        covered = compare_with_seal(document, sealed, None if chain_file is None else _read_lines(chain_file))
    if as_json:
        print_json(_summary(proven, sealed, covered))
        return
    _print_proven(proven, "given with --key" if key else "pinned from the server earlier")
    if sealed is not None:
        _print_sealed(proven, sealed, covered, has_chain=chain_file is not None)


def _trusted(files: Iterable[Path]) -> TrustedKeys:
    keys = [public_key(file.read_text(errors="replace")) for file in files]
    return {key_id_of(key): key for key in keys} or Pins.read().keys


def _read_json(file: Path) -> Any:
    try:
        found = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise NotProven(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise NotProven(f"{file} is neither a receipt nor a seal")
    return found


def _read_lines(file: Path) -> Iterable[Any]:
    with file.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise NotProven(f"line {number} of {file} is not JSON") from error


def _summary(proven: Proven, sealed: SealProven | None, covered: int) -> dict[str, object]:
    return {
        "is_proven": True,
        "job_id": proven.job_id,
        "tenant_id": proven.tenant_id,
        "key_id": proven.key_id,
        "entries": proven.entries,
        "gpu_us_milli": proven.gpu_us_milli,
        "cost_micro": proven.cost_micro,
        "is_final": proven.is_final,
        "seal": None if sealed is None else sealed.number,
        "sealed_entries": covered,
    }


def _print_proven(proven: Proven, origin: str) -> None:
    hours, rest = divmod(proven.gpu_us_milli, GPU_HOUR)
    end = "" if proven.is_final else "; more will be posted"
    print_line(f"sound: {proven.entries} entries of {proven.job_id}, {money_text(proven.cost_micro)}{end}")
    print_line(f"GPU time: {hours} hours and {rest // 1000} us of a whole GPU")
    print_line(f"signed by {proven.key_id}, {origin}; a key inside of a receipt would prove nothing")


def _print_sealed(proven: Proven, sealed: SealProven, covered: int, *, has_chain: bool) -> None:
    print_line(f"seal {sealed.number} holds: {sealed.count} entries were there before {moment_text(sealed.until_us)}")
    print_line(f"{covered} of the receipt's {proven.entries} entries are among them")
    if covered != proven.entries:
        why = "they are newer than the seal" if has_chain else "give the chain with --chain, or a newer seal"
        print_line(f"not compared: {proven.entries - covered}; {why}")
