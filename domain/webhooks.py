"""What may be called from here, and when again: the rules of webhooks."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from domain.errors import Invalid

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

TYPES: Mapping[str, str] = MappingProxyType(
    {
        "submitted": "job.queued",
        "job_queued": "job.queued",
        "started": "job.started",
        "job_succeeded": "job.succeeded",
        "job_failed": "job.failed",
        "job_cancelled": "job.cancelled",
        "job_held": "job.held",
        "budget_warning": "budget.warning",
        "quota_granted": "quota.granted",
        "quota_refused": "quota.refused",
        "quota_grant_ended": "quota.ended",
        "image_allowed": "image.allowed",
        "image_blocked": "image.blocked",
    }
)
"""Which events of the store are told, and as what."""
TEST_TYPE = "webhook.test"
ATTEMPTS_MAX = 11
FIRST_DELAY_US = 5_000_000
LONGEST_DELAY_US = 6 * 3_600_000_000
URL_CHARACTERS_MAX = 2000
_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.IGNORECASE
)
_NUMBER = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)", re.IGNORECASE)
"""What some would take for an address: 127.1, 0x7f000001, 2130706433."""
_PATH = re.compile(r"[\x21-\x7e]*")
_PLATFORMS_OWN = frozenset({ipaddress.ip_address("168.63.129.16")})
"""A cloud's host answers there, at an address that looks public."""
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        "192.0.0.0/24",
        "192.88.99.0/24",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/23",
        "fec0::/10",
    )
)
"""What leads elsewhere in another notation, or belongs to a protocol, whatever this Python thinks of it."""
_GLOBAL_IPV6 = ipaddress.ip_network("2000::/3")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a webhook goes."""

    host: str
    port: int
    path: str
    """With the query."""
    is_tls: bool


@dataclass(frozen=True, slots=True)
class WebhookRules:
    """What an operator lets webhooks reach."""

    ports: frozenset[int] = frozenset({443, 8443})
    allow_http: bool = False
    networks: tuple[Network, ...] = ()
    """The operator's own, reached although they are not public."""

    @classmethod
    def of(cls, ports: str, networks: str, *, allow_http: bool) -> "WebhookRules":
        """As settings have them, with commas in between.

        Raises:
            ValueError: a port or a network is none.
        """
        nets = tuple(ipaddress.ip_network(each.strip()) for each in networks.split(",") if each.strip())
        return cls(frozenset(int(each) for each in ports.split(",") if each.strip()), allow_http, nets)

    def target(self, url: str) -> Target:
        """Where the URL leads.

        Raises:
            Invalid: it is not one that may be called.
        """
        parts = _parts(url)
        if parts.scheme not in (("https", "http") if self.allow_http else ("https",)):
            raise Invalid("a webhook's URL begins with https://")
        if "@" in parts.netloc or parts.fragment:
            raise Invalid("a webhook's URL holds no user, no password and no fragment")
        host = parts.hostname or ""
        literal = _literal(host)
        is_name = _HOST.fullmatch(host) and not _NUMBER.fullmatch(host) and "[" not in parts.netloc
        if not (literal or is_name):
            raise Invalid("a webhook's URL names no host that could be looked up", "write names in ASCII (punycode)")
        port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
        if port not in self.ports:
            raise Invalid(f"port {port} is not one that webhooks may reach", f"there are: {sorted(self.ports)}")
        if literal is not None and not self.may_reach(literal):
            raise Invalid("the address is not public", "webhooks reach public addresses only")
        query = f"?{parts.query}" if parts.query else ""
        return Target(host, port, (parts.path or "/") + query, parts.scheme == "https")

    def may_reach(self, address: Address) -> bool:
        """Whether it is a public address, or in a network of the operator's choice."""
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address in network for network in self.networks) or is_public(address)


def is_public(address: Address) -> bool:
    """Whether everybody may reach it: no loopback, private, link-local, shared, multicast or reserved address, nor one
    that leads to such a one in another notation."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return False
    if address in _PLATFORMS_OWN or address.is_multicast or address.is_reserved or address.is_unspecified:
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_IPV6:
        return False
    return address.is_global and not any(address in network for network in _NOT_PUBLIC)


def retry_delay_us(attempts: int, jitter_milli: int) -> int | None:
    """How long after the last of so many attempts the next one comes, a day and a half in all; None for never.

    Args:
        jitter_milli: from 0 to 1000, by chance: the delay is up to a fifth shorter or longer.
    """
    if attempts >= ATTEMPTS_MAX:
        return None
    delay = min(LONGEST_DELAY_US, FIRST_DELAY_US << 2 * (attempts - 1))
    return delay * (800 + 400 * jitter_milli // 1000) // 1000


def all_types() -> Sequence[str]:
    """The types that a webhook can ask for."""
    return sorted(set(TYPES.values()))


def _parts(url: str) -> SplitResult:
    if len(url) > URL_CHARACTERS_MAX or not _PATH.fullmatch(url) or "\\" in url:
        raise Invalid("a webhook's URL is of printable ASCII, without blanks and backslashes")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Invalid("a webhook's URL is malformed") from None
    return parts


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
