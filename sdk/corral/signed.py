"""Checks what a server signed, without the server: key ids and Ed25519 signatures."""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from corral.chains import canonical_json
from corral.errors import CorralError
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Document = Mapping[str, Any]
TrustedKeys = Mapping[str, Ed25519PublicKey]
"""By key id. A document is never believed for a key that it brings along."""

_PEM = re.compile(r"-----BEGIN PUBLIC KEY-----(.*?)-----END PUBLIC KEY-----", re.DOTALL)
_ED25519 = bytes.fromhex("302a300506032b6570032100")
"""How the DER of every Ed25519 public key begins (RFC 8410); its 32 bytes follow."""


class NotProven(CorralError):
    """A document that does not prove what it says."""

    code = "not_proven"


def public_key(pem: str) -> Ed25519PublicKey:
    """The public key in a PEM file.

    Raises:
        NotProven: there is no Ed25519 public key.
    """
    match = _PEM.search(pem)
    try:
        der = b"" if match is None else base64.b64decode("".join(match[1].split()), validate=True)
    except ValueError:
        der = b""
    if not der.startswith(_ED25519) or len(der) != len(_ED25519) + 32:
        raise NotProven("this is no Ed25519 public key in PEM")
    return Ed25519PublicKey.from_public_bytes(der[len(_ED25519) :])


def key_id_of(key: Ed25519PublicKey) -> str:
    """A key's name, made of the key itself."""
    return f"sig_{hashlib.sha256(key.public_bytes_raw()).hexdigest()[:32]}"


def check_signature(document: Document, signature: str, keys: TrustedKeys) -> None:
    """Nothing, if the trusted key that the document names signed it.

    Raises:
        NotProven: the key is not trusted, or it did not sign this.
    """
    named = str(document.get("key_id"))
    if named not in keys:
        known = ", ".join(keys) or "none"
        help_text = "give the server's public key with --key, or pin it while you trust the server: corral usage pin"
        raise NotProven(f"it names the key {named}, which is not among those trusted ({known})", help_text)
    try:
        keys[named].verify(base64.b64decode(signature, validate=True), canonical_json(document))
    except (InvalidSignature, ValueError) as error:
        raise NotProven(f"the key {named} did not sign this: it was changed, or is forged") from error
