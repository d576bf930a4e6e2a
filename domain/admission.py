"""Whether a job may be queued at all: the rules of the catalogue and of the quotas, whatever is free now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.errors import BeyondQuota, Invalid
from domain.levels import ImageKind, Level, runs_at
from domain.scheduling.snapshot import ANY_MODEL, WHOLE_GPU


@dataclass(frozen=True, slots=True)
class CatalogueImage:
    """An image that is admitted now."""

    name: str
    kind: ImageKind
    reference: str
    min_cuda: str | None
    blocked_for: str | None = None
    """Why its digest starts nowhere; None if it does."""
    refusals: Sequence[str] = ()
    """Why a node's gate turned it away."""
    tenants: frozenset[str] | None = None
    """Who may use it, with all below them; None for everybody."""

    def is_for(self, path: Sequence[str]) -> bool:
        """Whether a tenant may use it, by itself or through one above it."""
        return self.tenants is None or not self.tenants.isdisjoint(path)


@dataclass(frozen=True, slots=True)
class Rules:
    """What one tenant's own quota says of any job. None is no bound."""

    gpu_limit_milli: Mapping[str, int | None]
    """By model and `*`; a model without a row is bounded by `*` alone."""
    longest_time_limit_us: int | None
    highest_priority: int | None
    images: Sequence[str] | None
    isolation_levels: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Wish:
    """A job, reduced to what the rules look at."""

    least_level: Level
    time_limit_us: int
    priority: int
    gpus: int
    models: Sequence[str]
    """Accepted ones; empty for any."""


def check(wish: Wish, image: CatalogueImage, path: Sequence[Rules]) -> None:
    """Whether such a job could ever run, under every quota of `path`.

    Raises:
        Invalid: nothing of the image starts, or it does not run at the level asked for.
        BeyondQuota: a quota excludes the job, now and later.
    """
    if image.blocked_for is not None:
        raise Invalid(f"image {image.name} is blocked: {image.blocked_for}", "choose another, or ask an admin")
    if image.refusals:
        raise Invalid(f"image {image.name} was refused: {'; '.join(image.refusals)}", "choose another, or ask an admin")
    if not any(_may_run(image, level, wish.least_level) for level in Level):
        is_host = image.kind == ImageKind.HOST
        where = "process only" if is_host else "container and above only"
        raise Invalid(
            f"image {image.name} runs at the level {where}, and {wish.least_level} was asked for",
            'ask for "isolation": "process", or another image' if is_host else "",
        )
    for rules in path:
        _check_rules(rules, wish, image)


def _may_run(image: CatalogueImage, level: Level, least: Level) -> bool:
    return level.strength >= least.strength and runs_at(image.kind, level)


def _check_rules(rules: Rules, wish: Wish, image: CatalogueImage) -> None:
    longest, allowed = rules.longest_time_limit_us, rules.isolation_levels
    if longest is not None and wish.time_limit_us > longest:
        raise BeyondQuota(
            f"the time limit of {_span_text(wish.time_limit_us)} is over the quota's {_span_text(longest)}"
        )
    if rules.highest_priority is not None and wish.priority > rules.highest_priority:
        raise BeyondQuota("the priority is over the highest that the quota allows")
    if rules.images is not None and image.name not in rules.images:
        raise BeyondQuota(f"the quota does not allow image {image.name}")
    if allowed is not None and not any(_may_run(image, Level(level), wish.least_level) for level in allowed):
        raise BeyondQuota(f"the quota allows no isolation level at which this runs: it allows {', '.join(allowed)}")
    if wish.gpus:
        _check_gpus(rules.gpu_limit_milli, wish)


def _check_gpus(limits: Mapping[str, int | None], wish: Wish) -> None:
    """A job's devices are all of one model, so it fits if one of the accepted ones leaves enough."""
    bounds = [limits.get(ANY_MODEL, 0)]
    if wish.models:
        accepted = [limits.get(model) for model in set(wish.models)]
        bounds.append(None if None in accepted else max(limit for limit in accepted if limit is not None))
    for bound in bounds:
        if bound is not None and wish.gpus * WHOLE_GPU > bound:
            raise BeyondQuota(f"asked for {wish.gpus} GPUs at once, and the quota allows {bound // WHOLE_GPU}")


def _span_text(us: int) -> str:
    """A span in the largest unit that divides it: 604800 s are 7d."""
    seconds = us // 10**6
    unit, size = next(each for each in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)) if seconds % each[1] == 0)
    return f"{seconds // size}{unit}"
