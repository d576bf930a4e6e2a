"""Where a request comes from: the connection's other end, or what a trusted proxy says of its own."""

import ipaddress
from collections.abc import Sequence

from starlette.types import Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
UNKNOWN = ""
"""A connection without an address, such as over a unix socket."""


def networks(text: str) -> tuple[Network, ...]:
    """Networks, as a setting lists them: `10.0.0.0/8, fd00::/8`.

    Raises:
        ValueError: one of them is none.
    """
    return tuple(ipaddress.ip_network(each.strip()) for each in text.split(",") if each.strip())


def client_address(scope: Scope, trusted: Sequence[Network]) -> str:
    """The address of who sent the request.

    `X-Forwarded-For` is read from its end for as long as who wrote it is trusted; whatever stands before that, anybody
    may have made up.
    """
    client = scope.get("client")
    address = _address(client[0]) if client else UNKNOWN
    if not trusted or not _is_trusted(address, trusted):
        return address
    for said in reversed(_forwarded(scope)):
        if not (found := _address(said)):
            return address
        address = found
        if not _is_trusted(address, trusted):
            return address
    return address


def _forwarded(scope: Scope) -> list[str]:
    lines = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return [each.strip() for each in ",".join(lines).split(",") if each.strip()]


def _address(text: str) -> str:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return UNKNOWN
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def _is_trusted(address: str, trusted: Sequence[Network]) -> bool:
    return address != UNKNOWN and any(ipaddress.ip_address(address) in network for network in trusted)
