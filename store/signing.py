"""The server's signing keys: one signs, and its earlier ones still prove what they signed.

All are kept in one file, in PEM: the private key first, then the public parts of those before it.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from domain.ledger import canonical_json
from store.private_files import put_in_place

_BLOCK = re.compile(rb"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n?", re.DOTALL)


class SigningKeyUnusable(Exception):
    """The file of keys cannot serve, and the message says why."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The key that signs, and all by which a signature may be checked."""

    private: Ed25519PrivateKey
    public: Mapping[str, Ed25519PublicKey]
    """By key id, the signing one first."""

    @property
    def key_id(self) -> str:
        """Of the key that signs."""
        return next(iter(self.public))

    def sign(self, document: Mapping[str, object]) -> str:
        """The signature, as base64, over the document's canonical JSON. The document names the key: `key_id`."""
        return base64.b64encode(self.private.sign(canonical_json(document).encode("ascii"))).decode()

    def is_signed(self, document: Mapping[str, object], signature: str) -> bool:
        """Whether one of these keys, and the one that the document names, signed it."""
        key = self.public.get(str(document.get("key_id")))
        if key is None:
            return False
        try:
            key.verify(base64.b64decode(signature, validate=True), canonical_json(document).encode("ascii"))
        except (InvalidSignature, ValueError):
            return False
        return True

    def public_pem(self, key_id: str) -> str:
        """A public key, as it is handed out."""
        return _pem(self.public[key_id]).decode()


def read_keyring(file: Path) -> Keyring:
    """The keys in the file.

    Raises:
        SigningKeyUnusable: it is not there, others may read it, or it holds something else.
    """
    try:
        if file.stat().st_mode & 0o077:
            raise SigningKeyUnusable(f"others may read the signing key in {file}; run: chmod 600 '{file}'")
        blocks = [(match[1], match[0]) for match in _BLOCK.finditer(file.read_bytes())]
    except OSError as error:
        raise SigningKeyUnusable(f"the signing key in {file} cannot be read: {error.strerror}") from error
    try:
        private = serialization.load_pem_private_key(blocks[0][1], None)
        earlier = [serialization.load_pem_public_key(block) for _, block in blocks[1:]]
    except (IndexError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SigningKeyUnusable(f"{file} is no file of signing keys; make one: corrald keys new signing") from error
    keys = [private.public_key(), *earlier]
    if not isinstance(private, Ed25519PrivateKey) or not all(isinstance(key, Ed25519PublicKey) for key in keys):
        raise SigningKeyUnusable(f"{file} holds a key that is not Ed25519")
    return Keyring(private, {key_id_of(key): key for key in keys if isinstance(key, Ed25519PublicKey)})


def new_signing_key(file: Path) -> Keyring:
    """Make a key that signs from now on; the public parts of those before it stay in the file.

    Raises:
        SigningKeyUnusable: the file is there and is none of keys.
    """
    before = [_pem(key) for key in read_keyring(file).public.values()] if file.exists() else []
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    put_in_place(file, b"".join([secret, *before]))
    return read_keyring(file)


def key_id_of(key: Ed25519PublicKey) -> str:
    """A key's name, made of the key itself: whoever has the key can tell whether the name is its own."""
    return f"sig_{hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]}"


def _pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
