"""`corral usage verify`: it asks no server, trusts no key that comes along, and says clearly what it found."""

import json
from pathlib import Path
from typing import Any

import pytest
from corral.chains import GENESIS, entry_hash
from corral.cli.main import app
from corral.errors import CorralError
from corral.pins import Pins, pins_file
from corral.signed import NotProven
from typer.testing import CliRunner

from store.signing import Keyring, new_signing_key

JOB, TENANT = "job_" + "0" * 26, "ten_" + "0" * 26
runner = CliRunner()


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    """The server's key; this machine has a configuration of its own, and no server."""
    monkeypatch.setattr("corral.pins.config_file", lambda: tmp_path / "config" / "config.toml")
    monkeypatch.setenv("CORRAL_URL", "http://127.0.0.1:1")
    return new_signing_key(tmp_path / "signing.key")


@pytest.fixture
def receipt(keyring: Keyring, tmp_path: Path) -> Path:
    fields = {
        "id": "ent_1", "seq": 1, "tenant_id": TENANT, "job_id": JOB, "allocation_id": "all_1", "cause": "running",
        "kind": "usage", "duration_us": 7_200_000_000, "share_milli": 500, "price_micro_per_gpu_hour": 3_000_000,
        "rate_milli": 500, "cost_micro": 1_500_000,
    }  # fmt: skip
    head = entry_hash({**fields, "prev_hash": GENESIS})
    sums = {"gpu_us_milli": 3_600_000_000_000, "cost_micro": 1_500_000}
    document: dict[str, Any] = {
        "kind": "corral.receipt", "version": 1, "tenant_id": TENANT, "job_id": JOB, "job_state": "succeeded",
        "is_final": True, "issued_us": 1, "entries": [{"seq": 1, "prev_hash": GENESIS, "hash": head, "fields": fields}],
        "by_cause": {"running": sums}, "chain_length": 1, "chain_head": head, "key_id": keyring.key_id, **sums,
    }  # fmt: skip
    file = tmp_path / "receipt.json"
    file.write_text(json.dumps({**document, "signature": keyring.sign(document)}, indent=2))
    return file


def public(keyring: Keyring, folder: Path) -> Path:
    file = folder / "public.pem"
    file.write_text(keyring.public_pem(keyring.key_id))
    return file


def test_a_receipt_holds_by_a_key_that_is_given(receipt: Path, keyring: Keyring, tmp_path: Path) -> None:
    result = runner.invoke(app, ["usage", "verify", str(receipt), "--key", str(public(keyring, tmp_path))])
    assert result.exit_code == 0, result.output
    assert "sound: 1 entries" in result.output
    assert "1.50" in result.output
    assert f"signed by {keyring.key_id}, given with --key" in result.output
    told = runner.invoke(app, ["usage", "verify", str(receipt), "--key", str(public(keyring, tmp_path)), "--json"])
    assert json.loads(told.output)["cost_micro"] == 1_500_000


def test_a_pinned_key_is_enough_and_no_key_is_not(receipt: Path, keyring: Keyring) -> None:
    unknown = runner.invoke(app, ["usage", "verify", str(receipt)])
    assert isinstance(unknown.exception, NotProven)
    assert "corral usage pin" in unknown.exception.help
    pins = Pins.read()
    assert pins.add(keyring.key_id, keyring.public_pem(keyring.key_id), "http://example.org", 1)
    pins.write()
    assert runner.invoke(app, ["usage", "verify", str(receipt)]).exit_code == 0
    assert not Pins.read().add(keyring.key_id, "another", "http://evil.example", 2), "a pin is never replaced"


def test_a_pin_under_another_keys_name_counts_for_nothing(receipt: Path, keyring: Keyring, tmp_path: Path) -> None:
    other = new_signing_key(tmp_path / "other.key")
    pins = Pins({keyring.key_id: {"public_key": other.public_pem(other.key_id)}})
    pins.write()
    assert isinstance(runner.invoke(app, ["usage", "verify", str(receipt)]).exception, NotProven)
    pins_file().write_text("[]")
    assert isinstance(runner.invoke(app, ["usage", "verify", str(receipt)]).exception, CorralError)


@pytest.mark.parametrize("content", ["", "[]", "{}", "nothing", '{"kind": "corral.receipt", "version": 1}', "[" * 9999])
def test_what_is_no_receipt_is_said_to_be_none(keyring: Keyring, tmp_path: Path, content: str) -> None:
    file = tmp_path / "receipt.json"
    file.write_text(content)
    result = runner.invoke(app, ["usage", "verify", str(file), "--key", str(public(keyring, tmp_path))])
    assert isinstance(result.exception, NotProven), result.output
