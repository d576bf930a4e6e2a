"""What an admin sets of a quota, and the bounds that follow from it. All amounts are thousandths of a GPU."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from domain.errors import Invalid
from domain.ids import TenantId
from domain.quota import reservations
from domain.scheduling.snapshot import ANY_MODEL

DEFAULT_MOST_QUEUED = 1000
DEFAULT_MOST_RUNNING = 100
DEFAULT_LONGEST_TIME_LIMIT_US = 7 * 86_400_000_000
DEFAULT_HIGHEST_PRIORITY = 1
DEFAULT_ISOLATION_LEVELS = ("container", "gvisor", "kata")


@dataclass(frozen=True, slots=True)
class GpuTerms:
    """A row of a quota as it is set: for a model, or for all models together."""

    limit_milli: int | None = None
    """Most at once; None where only others bound it."""
    guaranteed_milli: int = 0
    """Its own share of what is above it."""
    borrowable_milli: int | None = None
    """Most beyond its guarantee; None as much as its limit allows."""
    lendable_milli: int | None = None
    """How much of its guarantee others may use while it does not; None all of it."""


@dataclass(frozen=True, slots=True)
class QuotaRules:
    """A quota as an admin sets it. None is no rule of its own: those above it apply, and at the top the defaults."""

    gpus: Mapping[str, GpuTerms] = field(default_factory=dict)
    """By model and `*`."""
    most_queued: int | None = None
    most_running: int | None = None
    longest_time_limit_us: int | None = None
    highest_priority: int | None = None
    isolation_levels: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    gpu_hours_per_month: int | None = None
    """In a calendar month, UTC."""
    money_micro_per_month: int | None = None
    """The same, in millionths of the currency."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What a grant adds to a row."""

    limit_milli: int
    guaranteed_milli: int


@dataclass(frozen=True, slots=True)
class GpuBounds:
    """What follows for a row, grants in force counted."""

    ceiling_milli: int | None
    """What use may reach; None where only others bound it."""
    promised_milli: int
    """What is guaranteed."""
    kept_milli: int
    """The part of it that is lent to nobody."""


NOTHING = GpuTerms()
NO_GPU = GpuTerms(limit_milli=0)
NO_BOUNDS = GpuBounds(None, 0, 0)


def gpu_bounds(
    terms: Mapping[str, GpuTerms], extras: Mapping[str, Extra], *, has_parent: bool
) -> Mapping[str, GpuBounds]:
    """The bounds of each row that was set or granted, and always of `*`.

    What is guaranteed or granted of a model is so of `*` too, since its use counts in both. Without a `*` row a tenant
    below another is bounded by that one alone, and one at the top has nothing.
    """
    models = sorted({*terms, *extras} - {ANY_MODEL})
    found = {model: _bounds(terms.get(model, NOTHING), extras.get(model)) for model in models}
    everything = _bounds(
        terms.get(ANY_MODEL, NOTHING if has_parent else NO_GPU),
        Extra(
            sum(each.limit_milli for each in extras.values()), sum(each.guaranteed_milli for each in extras.values())
        ),
        least_promised=sum(each.promised_milli for each in found.values()),
        least_kept=sum(each.kept_milli for each in found.values()),
    )
    return found | {ANY_MODEL: everything}


def check_terms(terms: Mapping[str, GpuTerms]) -> None:
    """Refuse a row that contradicts itself.

    Raises:
        Invalid: more is guaranteed than the limit allows, or more is lent than is guaranteed.
    """
    for model, row in terms.items():
        if row.limit_milli is not None and row.guaranteed_milli > row.limit_milli:
            raise Invalid(f"more is guaranteed of {model} than its limit allows", "raise the limit, or guarantee less")
        if row.lendable_milli is not None and row.lendable_milli > row.guaranteed_milli:
            raise Invalid(f"more is lent of {model} than is guaranteed", "lend at most what is guaranteed")


def broken_promise(
    parents: Mapping[TenantId, TenantId | None], bounds: Mapping[TenantId, GpuBounds], path: Iterable[TenantId]
) -> TenantId | None:
    """In one row: a tenant of `path` to which, or below which, more is guaranteed than it may use; None without one."""
    below = reservations(parents, {}, {tenant_id: row.promised_milli for tenant_id, row in bounds.items()})
    for tenant_id in path:
        own = bounds.get(tenant_id, NO_BOUNDS)
        if own.ceiling_milli is not None and max(own.promised_milli, below[tenant_id]) > own.ceiling_milli:
            return tenant_id
    return None


def _bounds(terms: GpuTerms, extra: Extra | None, least_promised: int = 0, least_kept: int = 0) -> GpuBounds:
    more = extra or Extra(0, 0)
    guaranteed = terms.guaranteed_milli + more.guaranteed_milli
    promised = max(guaranteed, least_promised)
    lendable = guaranteed if terms.lendable_milli is None else terms.lendable_milli
    ceilings = [] if terms.limit_milli is None else [terms.limit_milli + more.limit_milli]
    if terms.borrowable_milli is not None:
        ceilings.append(promised + terms.borrowable_milli)
    ceiling = min(ceilings, default=None)
    kept = max(guaranteed - lendable, least_kept)
    return GpuBounds(ceiling, promised, kept if ceiling is None else min(kept, ceiling))
