"""How this node proves to Redis who it is: as a user of its own, with a password that lasts until its next start."""

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import quote, urlsplit, urlunsplit

from domain.ids import NodeId
from hints.access import node_user

PASSWORD_BYTES = 32
NETWORK_SCHEMES = ("redis", "rediss")


@dataclass(frozen=True, slots=True)
class HintAccess:
    """The URL to ask for hints at, and what the API is told of the password in it."""

    redis_url: str = field(repr=False)
    password_sha256: str | None
    """None where the operator gave the credentials, or where a unix socket's mode is the guard."""

    @classmethod
    def of(cls, redis_url: str, node_id: NodeId) -> Self:
        """A URL that names a user or a password is taken as it is."""
        parts = urlsplit(redis_url)
        if parts.scheme not in NETWORK_SCHEMES or parts.username or parts.password:
            return cls(redis_url, None)
        password = secrets.token_hex(PASSWORD_BYTES)
        place = f"{quote(node_user(node_id), safe='')}:{password}@{parts.netloc}"
        digest = hashlib.sha256(password.encode()).hexdigest()
        return cls(urlunsplit(parts._replace(netloc=place)), digest)
