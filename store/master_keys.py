"""The master keys that wrap data keys: in a file, or behind a program that speaks to a key management service.

The file has a line `ID BASE64` for each key of 32 bytes, the newest last. The newest wraps; all unwrap. It is read at
each use, so a key that was added counts without a restart.

The program is called with the argument `wrap` or `unwrap`. It reads one JSON object from its standard input,
`{"context": "…", "data": "BASE64"}`, and writes one, `{"data": "BASE64"}`, to its standard output. What `wrap` gave is
what `unwrap` is asked with, and with the same context, which the service should bind. Exit code 0 means that it did; 2
means that it never will (another context, a destroyed key); any other, that asking again may help.
"""

import base64
import binascii
import json
import logging
import secrets
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from domain.errors import CannotUnseal, NoSealingKey, SealingAway
from store.private_files import put_in_place
from store.sealing import KEY_BYTES, MasterKeys, decrypted, encrypted

PROGRAM_SECONDS: Final = 10
NEVER: Final = 2
"""Exit code of a program that will not do it however often it is asked."""
OF_PROGRAM: Final = "kms"

log = logging.getLogger(__name__)


class BadKeyFile(Exception):
    """The file of master keys cannot serve; the message says why and shows nothing of a key."""


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One key of the file."""

    id: str
    key: bytes = field(repr=False)


class NoMasterKeys:
    """For a server that was given none: nothing secret is taken."""

    def wrap(self, data_key: bytes, context: str) -> str:
        """Refuse."""
        raise NoSealingKey

    def unwrap(self, wrapped: str, context: str) -> bytes:
        """Refuse."""
        raise NoSealingKey

    def is_newest(self, wrapped: str) -> bool:
        """Nothing would be newer."""
        return True


class FileKeys:
    """Master keys in a file that only the server can read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wrap(self, data_key: bytes, context: str) -> str:
        """Wrapped by the newest key of the file."""
        newest = self._keys()[-1]
        return f"{newest.id}:{_text(encrypted(newest.key, data_key, _bound(newest.id, context)))}"

    def unwrap(self, wrapped: str, context: str) -> bytes:
        """Unwrapped by the key of the file that wrapped it."""
        key_id, _, data = wrapped.partition(":")
        for each in self._keys():
            if each.id == key_id:
                return decrypted(each.key, base64.b64decode(data), _bound(key_id, context))
        raise CannotUnseal("the master key under which it was kept is not in the server's key file")

    def is_newest(self, wrapped: str) -> bool:
        """Whether the file's last key wrapped it."""
        return wrapped.partition(":")[0] == self._keys()[-1].id

    def _keys(self) -> Sequence[MasterKey]:
        try:
            return read_key_file(self._path)
        except BadKeyFile as why:
            log.error("%s", why)
            raise SealingAway from why


class ProgramKeys:
    """Master keys behind a program. Which of its keys wrapped what, only the program knows."""

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)

    def wrap(self, data_key: bytes, context: str) -> str:
        """Wrapped by the program."""
        return f"{OF_PROGRAM}:{_text(self._ask('wrap', data_key, context))}"

    def unwrap(self, wrapped: str, context: str) -> bytes:
        """Unwrapped by the program."""
        maker, _, data = wrapped.partition(":")
        if maker != OF_PROGRAM:
            raise CannotUnseal("it was kept under a key file, and the server has a program for its keys")
        return self._ask("unwrap", base64.b64decode(data), context)

    def is_newest(self, wrapped: str) -> bool:
        """Unknown, so never: wrapping again asks the program for its newest."""
        return False

    def _ask(self, what: str, data: bytes, context: str) -> bytes:
        request = json.dumps({"context": context, "data": _text(data)})
        try:
            done = subprocess.run(
                [*self._command, what],
                input=request.encode(),
                capture_output=True,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            log.error("the program for the keys of secrets did not %s: %s", what, type(error).__name__)
            raise SealingAway from error
        if done.returncode == NEVER:
            raise CannotUnseal("the program for the keys of secrets refuses this one")
        try:
            if done.returncode == 0:
                return base64.b64decode(json.loads(done.stdout)["data"], validate=True)
        except (ValueError, KeyError, TypeError):
            log.error("the program for the keys of secrets answered to %s what is not understood", what)
            raise SealingAway from None
        log.error("the program for the keys of secrets did not %s: exit code %d", what, done.returncode)
        raise SealingAway


def master_keys(key_file: Path | None, command: str | None) -> MasterKeys:
    """The keys that the settings name; the program goes before the file.

    Raises:
        BadKeyFile: a file is named that cannot serve.
    """
    if command:
        return ProgramKeys(command)
    if key_file is None:
        return NoMasterKeys()
    read_key_file(key_file)
    return FileKeys(key_file)


def read_key_file(path: Path) -> Sequence[MasterKey]:
    """All keys, oldest first.

    Raises:
        BadKeyFile: it is not there, others may read it, or a line is no key.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise BadKeyFile(f"{path} may be read by others: chmod 600 {path}")
        lines = [line.split() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    except OSError as error:
        raise BadKeyFile(f"the key file {path} cannot be read: {error.strerror}") from error
    if not lines:
        raise BadKeyFile(f"the key file {path} holds no key")
    return [_key(path, words) for words in lines]


def add_key(path: Path) -> str:
    """Make a new master key, the newest from now on; the file is made if there is none. Return the key's id."""
    kept = path.read_text() if path.exists() else ""
    key_id = secrets.token_hex(4)
    put_in_place(path, f"{kept}{key_id} {_text(secrets.token_bytes(KEY_BYTES))}\n".encode())
    return key_id


def _key(path: Path, words: Sequence[str]) -> MasterKey:
    try:
        key_id, text = words
        key = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise BadKeyFile(f"a line of the key file {path} is not written as ID BASE64") from None
    if len(key) != KEY_BYTES or ":" in key_id or key_id == OF_PROGRAM:
        raise BadKeyFile(f"a key of the key file {path} is not of {KEY_BYTES} bytes, or has an id that cannot be")
    return MasterKey(key_id, key)


def _bound(key_id: str, context: str) -> bytes:
    return f"{key_id}/{context}".encode()


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
