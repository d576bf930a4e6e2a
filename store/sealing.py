"""Secrets at rest, in envelopes: each value under a data key of its own, and that key wrapped by a master key.

AES-256-GCM throughout. What is sealed is bound to its place (whose it is, under what name, which version), so that a
row that is moved, copied or put back over a newer one does not open. The master keys are `store/master_keys.py`'s.
"""

import os
from dataclasses import dataclass, field
from typing import Final, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from domain.errors import CannotUnseal

KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12


class MasterKeys(Protocol):
    """Wraps data keys. Both methods may wait for a program outside: call them in no transaction."""

    def wrap(self, data_key: bytes, context: str) -> str:
        """The data key, wrapped by the newest master key, as text that names that key.

        Raises:
            SealingAway: it cannot be had now.
        """

    def unwrap(self, wrapped: str, context: str) -> bytes:
        """The data key that was wrapped with this context.

        Raises:
            CannotUnseal: the master key is not there any more, or it was wrapped for another place.
            SealingAway: it cannot be had now.
        """

    def is_newest(self, wrapped: str) -> bool:
        """Whether wrapping it again would give it no newer master key."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A value as the database keeps it."""

    wrapped_key: str
    ciphertext: bytes


@dataclass(frozen=True, slots=True)
class Envelope:
    """A fresh data key, for one value. Made before the transaction, used in it."""

    place: str
    wrapped_key: str
    _data_key: bytes = field(repr=False)

    def seal(self, value: bytes, version: int) -> Sealed:
        """The value, encrypted for its place and version."""
        return Sealed(self.wrapped_key, encrypted(self._data_key, value, _bound(self.place, version)))


def envelope(keys: MasterKeys, place: str) -> Envelope:
    """A new envelope for a place, such as `secret/ten_…/NAME`."""
    data_key = AESGCM.generate_key(KEY_BYTES * 8)
    return Envelope(place, keys.wrap(data_key, place), data_key)


def unseal(keys: MasterKeys, sealed: Sealed, place: str, version: int) -> bytes:
    """The value that was sealed for this place and version.

    Raises:
        CannotUnseal: it was sealed for another, was changed since, or its master key is gone.
        SealingAway: the master key cannot be had now.
    """
    return decrypted(keys.unwrap(sealed.wrapped_key, place), sealed.ciphertext, _bound(place, version))


def rewrap(keys: MasterKeys, wrapped_key: str, place: str) -> str:
    """The same data key under the newest master key; the value need not be touched."""
    return keys.wrap(keys.unwrap(wrapped_key, place), place)


def encrypted(key: bytes, value: bytes, bound: bytes) -> bytes:
    """A nonce and what was encrypted under it."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, bound)


def decrypted(key: bytes, data: bytes, bound: bytes) -> bytes:
    """What `encrypted` was given.

    Raises:
        CannotUnseal: another key, another place, or a changed byte.
    """
    try:
        return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], bound)
    except (InvalidTag, ValueError):
        raise CannotUnseal("what was sealed was changed, or was sealed for another place") from None


def _bound(place: str, version: int) -> bytes:
    return f"{place}/{version}".encode()
