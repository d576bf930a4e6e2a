"""Which limit a request falls under, and who pays: its key and its tenant; without a valid key, its address."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fastapi import Request
from starlette.types import Scope

from api.fairness import turn_of
from api.rate_limits import RateLimits, Rule
from api.settings import ApiSettings

SUBMISSIONS = frozenset({"/v1/jobs", "/v1/jobs/batch"})
KNOWN_MAX = 20_000
"""Keys that a process remembers."""
INNER = "/v1/"
"""What lies outside asks for no key."""
CHARGED, CHARGED_ADDRESS = "is_charged", "is_address_charged"
"""In a request's state: that it was."""


@dataclass(frozen=True, slots=True)
class _Payer:
    whose: str
    """Whose turns its requests take."""
    charges: Callable[[str], Sequence[tuple[Rule, str]]]
    """What a request of some kind costs, and whom."""


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
        self._of_open = Rule.of("address-open", settings.rate_open)
        self._known: dict[bytes, _Payer] = {}
        """By the hash of a token: who pays, when it was last found to be somebody's."""

    async def meet(self, scope: Scope) -> str:
        """Charge a request before anything else is done for it, if it is known who pays; whose turn it waits for.

        Raises:
            RateLimited: that one has asked too often.
        """
        payer = self._known.get(_place(_token(scope)))
        if not scope["path"].startswith(INNER):
            payer = None
            await self._take(scope, [(self._of_open, scope["state"]["address"])])
        whose = f"address {scope['state']['address']}" if payer is None else payer.whose
        turn_of.set(whose)
        if payer is not None:
            await self._take(scope, payer.charges(_kind(scope)))
        return whose

    async def charge(self, request: Request, token: str, key_id: str, tenant_id: str | None) -> None:
        """Charge the request to its key and its tenant, unless it was when it came in.

        Raises:
            RateLimited: one of them has asked too often.
        """

        def charges(kind: str) -> Sequence[tuple[Rule, str]]:
            own = (self._of_keys[kind], key_id)
            return [own] if tenant_id is None else [own, (self._of_tenants[kind], tenant_id)]

        await self._learn(request, token, _Payer(tenant_id or key_id, charges))

    async def charge_node(self, request: Request, token: str, node_id: str) -> None:
        """Charge a node's request, unless it was when it came in.

        Raises:
            RateLimited: it has asked too often.
        """
        await self._learn(request, token, _Payer(node_id, lambda _kind: [(self._of_nodes, node_id)]))

    async def charge_address(self, request: Request) -> None:
        """Charge a request that nobody answers for to its address.

        Raises:
            RateLimited: too many came from there.
        """
        await self.charge_failure(request.scope)

    async def charge_failure(self, scope: Scope) -> None:
        """The same of one that showed no valid key, once; what its token was before no longer counts.

        Raises:
            RateLimited: too many came from there.
        """
        self._known.pop(_place(_token(scope)), None)
        if not scope["state"].get(CHARGED_ADDRESS):
            scope["state"][CHARGED_ADDRESS] = True
            await self._limits.take(self._of_failures, scope["state"]["address"])

    async def _learn(self, request: Request, token: str, payer: _Payer) -> None:
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[_place(token.encode("utf-8", "surrogateescape"))] = payer
        turn_of.set(payer.whose)
        await self._take(request.scope, payer.charges(_kind(request.scope)))

    async def _take(self, scope: Scope, charges: Sequence[tuple[Rule, str]]) -> None:
        if scope["state"].get(CHARGED):
            return
        scope["state"][CHARGED] = True
        for rule, who in charges:
            self._limits.refuse_if_spent((rule,), who)
        lines = [await self._limits.take(rule, who) for rule, who in charges]
        scope["state"]["rate_lines"] = [line for line in lines if line is not None]


def _rules(whose: str, settings: ApiSettings, factor: int) -> Mapping[str, Rule]:
    return {
        "reads": Rule.of(f"{whose}-reads", settings.rate_reads, factor),
        "writes": Rule.of(f"{whose}-writes", settings.rate_writes, factor),
        "submissions": Rule.of(f"{whose}-submissions", settings.rate_submissions, factor),
    }


def _kind(scope: Scope) -> str:
    if scope["method"] in ("GET", "HEAD"):
        return "reads"
    return "submissions" if scope["path"] in SUBMISSIONS else "writes"


def _token(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == b"authorization":
            return bytes(value).partition(b" ")[2].strip()
    return b""


def _place(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


async def by_address(request: Request) -> None:
    """For routes that need no key: each request is charged to its address.

    Raises:
        RateLimited: too many came from there.
    """
    rates: Rates = request.app.state.rates
    await rates.charge_address(request)
