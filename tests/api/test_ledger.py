"""Usage, receipts, adjustments and prices over HTTP: every view of the ledger tells the same numbers."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest
from actors import Actor, a_job, a_key
from builders import a_node, a_placement
from corral.receipts import verify_receipt
from corral.seals import compare_with_seal, verify_seal
from corral.signed import NotProven, TrustedKeys, key_id_of, public_key
from fastapi.testclient import TestClient
from ledger_parts import a_line
from sqlalchemy import Engine

from api.app import create_app
from api.settings import ApiSettings
from control.sealer import Sealer
from domain.endings import Outcome
from store import assignments, attempts, ends
from store.ends import Ending
from store.engine import writing
from store.signing import new_signing_key, read_keyring

PRICE = 3_600_000_001
GROUPS = ("tenant", "member", "key", "model", "image", "node", "cause", "job", "hour", "day", "week", "month")


@pytest.fixture
def job_id(admin: Actor, tenant: Actor, engine: Engine) -> str:
    """A job of two GPUs that ran for a while, by a price that does not come out even, and by rates."""
    rates = {"preparing": 333, "running": 1000, "stopping": 0}
    spec = {"model": "*", "micro_per_gpu_hour": PRICE, "rates": rates}
    assert admin.send("PUT", "/prices", json=spec).status_code == 200
    labels = {"project": "=HYPERLINK(1)", "team": "vision"}
    made = tenant.made("/jobs", a_job(name="+cmd", labels=labels, resources={"gpus": 2}))
    run(engine, made["id"], Ending(Outcome.EXITED, 0, prepare_us=1_234_567, run_us=7_654_321, stop_us=11))
    return str(made["id"])


def run(engine: Engine, job_id: str, ending: Ending) -> None:
    with writing(engine) as session:
        placement = a_placement(session, job_id, a_node(session))
        assignments.lock_for(session, [placement])
        made = assignments.assign(session, placement)
    with writing(engine) as session:
        attempts.claim(session, made.node_id, made.attempt_id, made.fence)
    with writing(engine) as session:
        attempts.started(session, made.node_id, made.attempt_id, made.fence, ending.prepare_us, {})
    with writing(engine) as session:
        ends.ended(session, made.node_id, made.attempt_id, made.fence, ending, {})


@pytest.fixture
def trusted(admin: Actor) -> TrustedKeys:
    """The server's keys, as a client pins them."""
    found = admin.get("/signing-keys").json()["keys"]
    return {key_id_of(public_key(each["public_key"])): public_key(each["public_key"]) for each in found}


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def total(rows: list[dict[str, str]], column: str) -> int:
    return sum(int(row[column]) for row in rows)


def test_every_view_tells_the_same_numbers(
    tenant: Actor, admin: Actor, job_id: str, trusted: TrustedKeys, engine: Engine
) -> None:
    spec = {"tenant_id": tenant.tenant_id, "amount_micro": -17, "reason": "=sorry()", "job_id": job_id}
    admin.made("/adjustments", spec)
    page = tenant.get(f"/jobs/{job_id}/ledger").json()["items"]
    numbers = (sum(e["duration_us"] * e["share_milli"] for e in page), sum(e["cost_micro"] for e in page))
    assert numbers[0] > 0
    assert numbers[1] > 0
    usage = tenant.get("/usage", params={"group_by": "job,cause"}).json()
    assert {row["job_id"] for row in usage["rows"]} == {job_id}
    assert (usage["total_gpu_us_milli"], usage["total_cost_micro"]) == numbers
    receipt = tenant.get(f"/jobs/{job_id}/receipt").json()
    proven = verify_receipt(receipt, trusted)
    assert (proven.gpu_us_milli, proven.cost_micro, proven.is_final) == (*numbers, True)
    assert {row["cause"]: row["cost_micro"] for row in usage["rows"]} == {
        cause: each["cost_micro"] for cause, each in receipt["by_cause"].items()
    }
    for by in (*GROUPS, "label:project", "label:team,cause,hour"):
        table = rows_of(tenant.get("/usage", params={"group_by": by, "format": "csv", "tz": "Asia/Kathmandu"}).text)
        assert (total(table, "gpu_us_milli"), total(table, "cost_micro")) == numbers, by
    focus = rows_of(tenant.get("/usage", params={"format": "focus"}).text)
    assert (total(focus, "x_GpuUsMilli"), total(focus, "x_CostMicro")) == numbers
    assert {row["ChargeCategory"] for row in focus} == {"Usage", "Credit"}
    assert sum(round(float(row["BilledCost"]) * 10**6) for row in focus) == numbers[1]
    assert {json.loads(row["Tags"])["team"] for row in focus} == {"vision"}
    chain = tenant.get("/ledger").text.splitlines()
    assert sum(json.loads(line)["fields"]["cost_micro"] for line in chain) == numbers[1]


def test_what_somebody_wrote_is_no_formula_in_a_table(tenant: Actor, admin: Actor, job_id: str) -> None:
    spec = {"tenant_id": tenant.tenant_id, "amount_micro": 5, "reason": "@SUM(1)", "job_id": job_id}
    admin.made("/adjustments", spec)
    texts = [
        tenant.get("/usage", params={"group_by": "label:project", "format": "csv"}).text,
        tenant.get("/usage", params={"format": "focus"}).text,
    ]
    cells = [cell for text in texts for row in csv.reader(io.StringIO(text)) for cell in row]
    assert "'=HYPERLINK(1)" in cells
    assert "'+cmd" in cells
    assert "'@SUM(1)" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", "\t", "\r"))]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inner is None:
        yield path
        return
    for name, each in inner:
        yield from leaves(each, (*path, name))


def changed(document: Mapping[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    copy = deepcopy(dict(document))
    holder: Any = copy
    for step in path[:-1]:
        holder = holder[step]
    was = holder[path[-1]]
    holder[path[-1]] = (not was) if isinstance(was, bool) else was + 1 if isinstance(was, int) else f"{was}x"
    return copy


def test_a_receipt_changed_in_any_field_proves_nothing(tenant: Actor, job_id: str, trusted: TrustedKeys) -> None:
    receipt = tenant.get(f"/jobs/{job_id}/receipt").json()
    paths = list(leaves(receipt))
    assert len(paths) > 100
    for path in paths:
        with pytest.raises(NotProven):
            verify_receipt(changed(receipt, path), trusted)
    for field in receipt:
        with pytest.raises(NotProven):
            verify_receipt({name: value for name, value in receipt.items() if name != field}, trusted)
    with pytest.raises(NotProven, match="not among those trusted"):
        verify_receipt(receipt, {})


def test_a_receipt_that_the_server_signed_wrongly_is_found_out(
    tenant: Actor, job_id: str, trusted: TrustedKeys, settings: ApiSettings
) -> None:
    """Whoever holds the key cannot make it say what does not add up, either."""
    assert settings.signing_key_file is not None
    keyring = read_keyring(settings.signing_key_file)
    receipt = tenant.get(f"/jobs/{job_id}/receipt").json()
    kept = [path for path in leaves(receipt) if path[0] in ("entries", "by_cause", "gpu_us_milli", "cost_micro")]
    for path in kept:
        forged = changed(receipt, path)
        del forged["signature"]
        with pytest.raises(NotProven):
            verify_receipt({**forged, "signature": keyring.sign(forged)}, trusted)


def test_a_seal_proves_a_receipts_place_in_the_chain(
    tenant: Actor, rival: Actor, job_id: str, trusted: TrustedKeys, engine: Engine, settings: ApiSettings
) -> None:
    assert settings.signing_key_file is not None
    number = Sealer(engine, read_keyring(settings.signing_key_file), None).seal_now()
    receipt = tenant.get(f"/jobs/{job_id}/receipt").json()
    proof = tenant.get(f"/seals/{number}").json()
    assert rival.tenant_id not in json.dumps(proof)
    sealed = verify_seal(proof, trusted)
    assert sealed.count == len(receipt["entries"])
    assert compare_with_seal(receipt, sealed, None) == 1, "only the head itself can be compared without the chain"
    chain = [json.loads(line) for line in tenant.get("/ledger").text.splitlines()]
    assert compare_with_seal(receipt, sealed, chain) == len(receipt["entries"])
    with pytest.raises(NotProven, match="missing"):
        compare_with_seal(receipt, sealed, [chain[0], *chain[2:]])
    assert [each["number"] for each in tenant.get("/seals").json()["items"]] == [number]
    other = rival.get(f"/seals/{number}").json()
    assert other["head"] is None, "it has no entries"
    assert tenant.get("/seals/99").status_code == 404


def test_an_adjustment_is_made_once_and_signed(tenant: Actor, admin: Actor, rival: Actor, job_id: str) -> None:
    spec = {"tenant_id": tenant.tenant_id, "amount_micro": -(10**6), "reason": "an outage", "job_id": job_id}
    key = a_key()
    first, again = (admin.post("/adjustments", spec, headers=key) for _ in range(2))
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert first.json()["signature"]
    assert [each["id"] for each in admin.get("/adjustments").json()["items"]] == [first.json()["id"]]
    assert admin.get(f"/tenants/{tenant.tenant_id}/ledger/verify").json()["items"][0]["is_sound"]
    refusals = [
        ({**spec, "amount_micro": 0}, 422),
        ({**spec, "amount_micro": 1.5}, 422),
        ({**spec, "amount_micro": 10**18}, 422),
        ({**spec, "reason": "two\nlines"}, 422),
        ({**spec, "tenant_id": rival.tenant_id}, 404),
        ({**spec, "tenant_id": "ten_" + "0" * 26}, 404),
    ]
    for body, status in refusals:
        assert admin.post("/adjustments", body).status_code == status, body
    assert tenant.post("/adjustments", spec).status_code == 403
    assert len(admin.get("/adjustments").json()["items"]) == 1


def test_prices_have_a_past_and_a_future(admin: Actor) -> None:
    for price, more in ((1, {}), (2, {}), (3, {"valid_from": 2**61}), (4, {"priority": "high"})):
        spec = {"model": "H100", "micro_per_gpu_hour": price, **more}
        assert admin.send("PUT", "/prices", json=spec).status_code == 200
    found = {
        each["micro_per_gpu_hour"]: each for each in admin.get("/prices", params={"model": "H100"}).json()["items"]
    }
    states = {price: each["state"] for price, each in found.items()}
    assert states == {1: "past", 2: "in_force", 3: "scheduled", 4: "in_force"}
    assert found[1]["rates"] == {"preparing": 1000, "running": 1000, "stopping": 1000, "platform_fault": 0}
    assert admin.send("DELETE", f"/prices/{found[2]['id']}").status_code == 409
    assert admin.send("DELETE", f"/prices/{found[3]['id']}").status_code == 204
    for bad in (
        {"valid_from": 5},
        {"rates": {"platform_fault": 1000}},
        {"rates": {"running": -1}},
        {"priority": "vip"},
    ):
        spec = {"model": "H100", "micro_per_gpu_hour": 9, **bad}
        assert admin.send("PUT", "/prices", json=spec).status_code == 422, bad


def test_questions_that_make_no_sense_are_refused(tenant: Actor) -> None:
    for bad in (
        {"group_by": "day,hour"}, {"group_by": "colour"}, {"group_by": "label:"}, {"group_by": "label:a'b"},
        {"group_by": "model,model"}, {"tz": "Mars/Olympus"}, {"tz": "../etc/passwd"}, {"tz": "Europe"},
        {"format": "xml"}, {"format": "focus", "group_by": "model"}, {"since": -1},
    ):  # fmt: skip
        answer = tenant.get("/usage", params=bad)
        assert answer.status_code == 422, bad


def test_an_export_of_many_pages_is_whole(tenant: Actor, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.routes.usage.PAGE_ENTRIES", 7)
    monkeypatch.setattr("api.routes.ledger.PAGE_ENTRIES", 7)
    with writing(engine) as session:
        for number in range(30):
            a_line(session, tenant.tenant_id, number * 3_600_000_000 * 50, 3_600_000_000 * 50)
    focus = rows_of(tenant.get("/usage", params={"format": "focus"}).text)
    assert total(focus, "x_GpuUsMilli") == 30 * 3_600_000_000 * 50 * 1000
    assert len({row["x_EntryId"] for row in focus}) == 30
    assert len(focus) > 30, "an entry over a month's end has a row in each"
    assert len(tenant.get("/ledger").text.splitlines()) == 30


def test_without_a_key_nothing_is_signed(settings: ApiSettings, tenant: Actor) -> None:
    keyless = create_app(settings.model_copy(update={"signing_key_file": None}))
    with TestClient(keyless, raise_server_exceptions=False) as client:
        for path in ("/signing-keys", f"/jobs/job_{'0' * 26}/receipt"):
            answer = Actor(client, tenant.key).get(path)
            assert (answer.status_code, answer.json()["code"]) == (409, "no_signing_key")


def test_a_rotated_key_takes_over_at_the_next_start(settings: ApiSettings, tenant: Actor, job_id: str) -> None:
    before = tenant.get(f"/jobs/{job_id}/receipt").json()
    assert settings.signing_key_file is not None
    new_signing_key(settings.signing_key_file)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        actor = Actor(client, tenant.key)
        found = actor.get("/signing-keys").json()["keys"]
        assert [each["signs"] for each in found] == [True, False]
        trusted = {each["key_id"]: public_key(each["public_key"]) for each in found}
        after = actor.get(f"/jobs/{job_id}/receipt").json()
    assert before["key_id"] != after["key_id"]
    for receipt in (before, after):
        assert verify_receipt(receipt, trusted).job_id == job_id
