"""Which limit a request falls under, and who pays: its key and its tenant; without a valid key, its address."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request

from api.fairness import turn_of
from api.rate_limits import RateLimits, Rule
from api.settings import ApiSettings

SUBMISSIONS = frozenset({"/v1/jobs", "/v1/jobs/batch"})
KNOWN_MAX = 20_000
"""Keys that a process remembers."""


@dataclass(frozen=True, slots=True)
class _Payer:
    key_id: str
    tenant_id: str | None


class Rates:
    """The limits of every kind of request, as the settings have them."""

    def __init__(self, limits: RateLimits, settings: ApiSettings) -> None:
        self._limits = limits
        self._of_keys, self._of_tenants = (
            _rules("key", settings, 1),
            _rules("tenant", settings, settings.rate_tenant_factor),
        )
        self._of_nodes = Rule.of("node", settings.rate_nodes)
        self._of_failures = Rule.of("address-failures", settings.rate_failures)
        self._known: dict[str, _Payer] = {}
        """By the part of a key that is no secret: whose it was when it was last shown with its secret."""

    def meet(self, request: Request, token: str) -> None:
        """Before the database is asked whose the token is: let its tenant's requests take turns, and refuse it at once
        if it was refused just now.

        Raises:
            RateLimited: it was.
        """
        payer = self._known.get(_prefix(token))
        if payer is None:
            return
        turn_of.set(payer.tenant_id or payer.key_id)
        kind = _kind(request)
        self._limits.refuse_if_spent((self._of_keys[kind],), payer.key_id)
        if payer.tenant_id is not None:
            self._limits.refuse_if_spent((self._of_tenants[kind],), payer.tenant_id)

    async def charge(self, request: Request, token: str, key_id: str, tenant_id: str | None) -> None:
        """Charge the request to its key and its tenant.

        Raises:
            RateLimited: one of them has asked too often.
        """
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[_prefix(token)] = _Payer(key_id, tenant_id)
        turn_of.set(tenant_id or key_id)
        kind = _kind(request)
        lines = [await self._limits.take(self._of_keys[kind], key_id)]
        if tenant_id is not None:
            lines.append(await self._limits.take(self._of_tenants[kind], tenant_id))
        request.state.rate_lines = [line for line in lines if line is not None]

    async def charge_node(self, node_id: str) -> None:
        """Charge a node's request.

        Raises:
            RateLimited: it has asked too often.
        """
        turn_of.set(node_id)
        await self._limits.take(self._of_nodes, node_id)

    async def charge_address(self, request: Request) -> None:
        """Charge a request that nobody answers for to its address.

        Raises:
            RateLimited: too many came from there.
        """
        await self._limits.take(self._of_failures, request.state.address)


def _rules(whose: str, settings: ApiSettings, factor: int) -> Mapping[str, Rule]:
    return {
        "reads": Rule.of(f"{whose}-reads", settings.rate_reads, factor),
        "writes": Rule.of(f"{whose}-writes", settings.rate_writes, factor),
        "submissions": Rule.of(f"{whose}-submissions", settings.rate_submissions, factor),
    }


def _kind(request: Request) -> str:
    if request.method in ("GET", "HEAD"):
        return "reads"
    return "submissions" if request.url.path in SUBMISSIONS else "writes"


def _prefix(token: str) -> str:
    return token.split("_", 2)[1] if token.count("_") >= 2 else token[:16]


async def by_address(request: Request) -> None:
    """For routes that need no key: each request is charged to its address.

    Raises:
        RateLimited: too many came from there.
    """
    rates: Rates = request.app.state.rates
    await rates.charge_address(request)
