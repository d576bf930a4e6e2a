"""Envelopes and master keys: what is sealed opens in its place, with its key, and nowhere else."""

import shlex
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import CannotUnseal, NoSealingKey, SealingAway
from store.master_keys import BadKeyFile, FileKeys, NoMasterKeys, ProgramKeys, add_key, master_keys
from store.sealing import MasterKeys, Sealed, envelope, rewrap, unseal

KMS = """
import base64, json, os, sys
asked = json.load(sys.stdin)
data, context = base64.b64decode(asked["data"]), asked["context"].encode()
if os.environ.get("KMS_IS_AWAY"):
    sys.exit(1)
key = bytes(a ^ 0x5A for a in data)
if sys.argv[1] == "wrap":
    answer = bytes([len(context)]) + context + key
else:
    length = data[0]
    if data[1:1 + length] != context:
        sys.exit(2)
    answer = bytes(a ^ 0x5A for a in data[1 + length:])
print(json.dumps({"data": base64.b64encode(answer).decode()}))
"""


@pytest.fixture(params=["file", "program"])
def keys(request: pytest.FixtureRequest, tmp_path: Path) -> MasterKeys:
    if request.param == "file":
        add_key(tmp_path / "keys")
        return master_keys(tmp_path / "keys", None)
    script = tmp_path / "kms.py"
    script.write_text(KMS)
    return master_keys(None, shlex.join([sys.executable, "-I", str(script)]))


def test_what_was_sealed_opens(keys: MasterKeys) -> None:
    sealed = envelope(keys, "secret/ten_a/TOKEN").seal(b"hunter2", 3)
    assert b"hunter2" not in sealed.ciphertext
    assert unseal(keys, sealed, "secret/ten_a/TOKEN", 3) == b"hunter2"


@pytest.mark.parametrize(
    ("place", "version"), [("secret/ten_b/TOKEN", 3), ("secret/ten_a/OTHER", 3), ("secret/ten_a/TOKEN", 2)]
)
def test_it_opens_in_no_other_place_and_as_no_other_version(keys: MasterKeys, place: str, version: int) -> None:
    sealed = envelope(keys, "secret/ten_a/TOKEN").seal(b"hunter2", 3)
    with pytest.raises(CannotUnseal):
        unseal(keys, sealed, place, version)


def test_a_changed_byte_does_not_open(keys: MasterKeys) -> None:
    sealed = envelope(keys, "p").seal(b"hunter2", 1)
    changed = bytes([*sealed.ciphertext[:-1], sealed.ciphertext[-1] ^ 1])
    with pytest.raises(CannotUnseal):
        unseal(keys, Sealed(sealed.wrapped_key, changed), "p", 1)


@given(value=st.binary(max_size=1000))
def test_any_bytes_survive(tmp_path_factory: pytest.TempPathFactory, value: bytes) -> None:
    path = tmp_path_factory.mktemp("keys") / "keys"
    add_key(path)
    keys = FileKeys(path)
    assert unseal(keys, envelope(keys, "p").seal(value, 1), "p", 1) == value


def test_a_new_key_seals_and_the_old_one_opens_until_it_is_taken_out(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old, keys = add_key(path), FileKeys(path)
    sealed = envelope(keys, "p").seal(b"v", 1)
    new = add_key(path)
    assert sealed.wrapped_key.startswith(f"{old}:")
    assert not keys.is_newest(sealed.wrapped_key)
    moved = rewrap(keys, sealed.wrapped_key, "p")
    assert moved.startswith(f"{new}:")
    assert keys.is_newest(moved)
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith(old)))
    assert unseal(keys, Sealed(moved, sealed.ciphertext), "p", 1) == b"v"
    with pytest.raises(CannotUnseal):
        unseal(keys, sealed, "p", 1)


def test_a_key_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    add_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(BadKeyFile, match="chmod 600"):
        master_keys(path, None)


@pytest.mark.parametrize("text", ["", "one-word\n", "id bm90IDMyIGJ5dGVz\n", "id !!!\n", "kms " + "A" * 43 + "=\n"])
def test_a_file_that_holds_no_keys_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadKeyFile) as refusal:
        master_keys(path, None)
    assert "bm90" not in str(refusal.value)


def test_without_a_key_nothing_is_taken() -> None:
    with pytest.raises(NoSealingKey) as refusal:
        envelope(NoMasterKeys(), "p")
    assert "CORRAL_SECRETS_KEY_FILE" in refusal.value.help


@pytest.mark.parametrize("command", ["/nonexistent/kms", "false", "echo not-json", "echo {}"])
def test_a_program_that_does_not_answer_is_away(command: str) -> None:
    with pytest.raises(SealingAway):
        ProgramKeys(command).wrap(b"k" * 32, "p")


def test_what_a_file_wrapped_a_program_does_not_get_to_see(tmp_path: Path) -> None:
    add_key(tmp_path / "keys")
    wrapped = FileKeys(tmp_path / "keys").wrap(b"k" * 32, "p")
    with pytest.raises(CannotUnseal):
        ProgramKeys("false").unwrap(wrapped, "p")


def test_no_key_shows_in_a_traceback(tmp_path: Path) -> None:
    add_key(tmp_path / "keys")
    made = envelope(FileKeys(tmp_path / "keys"), "p")
    assert "_data_key" not in repr(made)
