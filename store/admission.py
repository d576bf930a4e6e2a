"""What admitting jobs needs to know, read for many jobs at once, with the quotas locked."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, func, literal, select
from sqlmodel import Session

from domain.admission import CatalogueImage, Rules
from domain.errors import QuotaExceeded
from domain.ids import TenantId
from domain.levels import ImageKind, Level
from domain.scheduling.snapshot import ANY_MODEL
from store.base import table_of
from store.blocked_digests import digest_column
from store.locks import remember_tree
from store.statements import Query
from store.tables import Gpu, Image, ImageBlock, ImageCheck, ImageTenant, Quota, StoredInput, Tenant

_TENANT, _QUOTA, _IMAGE = table_of(Tenant), table_of(Quota), table_of(Image)
_GPU, _INPUT = table_of(Gpu), table_of(StoredInput)
_BLOCK, _CHECK, _ALLOW = table_of(ImageBlock), table_of(ImageCheck), table_of(ImageTenant)

_UP = (
    select(_TENANT.c.id.label("leaf"), _TENANT.c.id, literal(0).label("steps"))
    .where(_TENANT.c.id.in_(bindparam("of", expanding=True)))
    .cte("up", recursive=True)
)
_UP = _UP.union_all(
    select(_UP.c.leaf, _TENANT.c.parent_id, _UP.c.steps + 1)
    .join(_TENANT, _TENANT.c.id == _UP.c.id)
    .where(_TENANT.c.parent_id.is_not(None))
)
_TREE = select(
    _UP.c.leaf, _UP.c.id, (func.max(_UP.c.steps).over(partition_by=_UP.c.leaf) - _UP.c.steps).label("depth")
).cte("tree")
_QUOTAS = (
    select(
        _TREE.c.leaf,
        _TREE.c.depth,
        _TENANT.c.state,
        _TENANT.c.default_isolation,
        _TENANT.c.default_time_limit_us,
        _QUOTA,
    )
    .join(_TENANT, _TENANT.c.id == _TREE.c.id)
    .join(_QUOTA, _QUOTA.c.tenant_id == _TREE.c.id)
    .order_by(_TREE.c.depth, _QUOTA.c.tenant_id, _QUOTA.c.model != ANY_MODEL, _QUOTA.c.model)
    .with_for_update(of=_QUOTA)
)
"""Whole trees in one statement; their quotas are locked in the order of `store.locks`. (SQLite needs no lock.)"""
_IMAGES = (
    select(
        *(_IMAGE.c[name] for name in ("name", "kind", "reference", "min_cuda", "is_restricted")),
        _BLOCK.c.reason.label("blocked_for"),
        _CHECK.c.refusals,
    )
    .outerjoin(_BLOCK, _BLOCK.c.digest == digest_column(_IMAGE.c.reference))
    .outerjoin(_CHECK, (_CHECK.c.reference == _IMAGE.c.reference) & (_CHECK.c.state == "refused"))
    .where(_IMAGE.c.name.in_(bindparam("names", expanding=True)), _IMAGE.c.state == "admitted")
)
_ALLOWED = select(_ALLOW.c.image_name, _ALLOW.c.tenant_id).where(
    _ALLOW.c.image_name.in_(bindparam("names", expanding=True))
)
_DEVICES = (
    select(_GPU.c.model, _GPU.c.memory_bytes, func.count().label("number"))
    .where(_GPU.c.state != "absent")
    .group_by(_GPU.c.model, _GPU.c.memory_bytes)
)
_HELD = select(_INPUT.c.tenant_id, _INPUT.c.sha256).where(
    _INPUT.c.tenant_id.in_(bindparam("of", expanding=True)), _INPUT.c.sha256.in_(bindparam("names", expanding=True))
)


@dataclass(slots=True)
class TenantFacts:
    """A tenant as admission sees it."""

    default_isolation: Level
    default_time_limit_us: int
    path: list[TenantId] = field(default_factory=list)
    """The root first, itself last."""
    rules: list[Rules] = field(default_factory=list)
    """Of each on the path."""
    is_suspended: bool = False
    """It, or one above it."""


class QueueRoom:
    """How many more jobs each tenant may have in its queue, and how many were taken."""

    def __init__(self, left: Mapping[str, int | None]) -> None:
        self._left = dict(left)
        self.taken: dict[str, int] = {}

    def take(self, path: Iterable[str], count: int) -> None:
        """Count so many jobs more, for each on the path.

        Raises:
            QuotaExceeded: somebody on it has no room for all of them; none is counted.
        """
        tenants = tuple(path)
        rooms = [left for each in tenants if (left := self._left[each]) is not None]
        if rooms and count > min(rooms):
            raise QuotaExceeded("queued jobs", count, max(0, min(rooms)))
        for each in tenants:
            left = self._left[each]
            self._left[each] = None if left is None else left - count
            self.taken[each] = self.taken.get(each, 0) + count


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices that the cluster has, by model and memory, whoever holds them."""

    counts: Sequence[tuple[str, int, int]]

    def count(self, models: Collection[str], memory_min_bytes: int) -> int:
        """How many are of one of these models (of any, if none is named) and have so much memory."""
        return sum(
            count
            for model, memory_bytes, count in self.counts
            if memory_bytes >= memory_min_bytes and (not models or model in models)
        )


def tenants_query(tenant_ids: Collection[str]) -> Query:
    """Asks for these tenants and those above them, and locks their quotas."""
    return Query(_QUOTAS, {"of": sorted(tenant_ids)})


def locked_tenants(session: Session, rows: Sequence[Any]) -> tuple[dict[str, TenantFacts], QueueRoom]:
    """What admission needs of the tenants that `tenants_query` found. One unknown is left out."""
    found: dict[str, TenantFacts] = {}
    left: dict[str, int | None] = {}
    limits: dict[str, dict[str, int | None]] = {}
    for row in rows:
        limits.setdefault(row.tenant_id, {})[row.model] = row.gpu_ceiling_milli
    for row in (row for row in rows if row.model == ANY_MODEL):
        # rows come from the root down, so that the last of a leaf is the leaf's own
        facts = found.setdefault(row.leaf, TenantFacts(Level.CONTAINER, 0))
        facts.default_isolation, facts.default_time_limit_us = Level(row.default_isolation), row.default_time_limit_us
        facts.path.append(TenantId(row.tenant_id))
        facts.rules.append(_rules(row, limits[row.tenant_id]))
        facts.is_suspended = facts.is_suspended or row.state != "active"
        left[row.tenant_id] = None if row.most_queued is None else row.most_queued - row.queued_used
    for tenant_id, facts in found.items():
        remember_tree(session, tenant_id, facts.path)
    return found, QueueRoom(left)


def images_query(names: Collection[str]) -> Query:
    """Asks for images by these names."""
    return Query(_IMAGES, {"names": sorted(names)})


def admitted_images(session: Session, rows: Sequence[Any]) -> dict[str, CatalogueImage]:
    """Those of the catalogue that `images_query` found: they are not retired."""
    allowed: dict[str, set[str]] = {row.name: set() for row in rows if row.is_restricted}
    if allowed:
        for name, tenant_id in session.connection().execute(_ALLOWED, {"names": sorted(allowed)}):
            allowed[name].add(tenant_id)
    return {
        row.name: CatalogueImage(
            name=row.name,
            kind=ImageKind(row.kind),
            reference=row.reference,
            min_cuda=row.min_cuda,
            blocked_for=row.blocked_for,
            refusals=row.refusals or (),
            tenants=frozenset(allowed[row.name]) if row.is_restricted else None,
        )
        for row in rows
    }


def held_inputs(session: Session, wanted: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the pairs of tenant and address that are stored."""
    if not wanted:
        return set()
    values = {"of": sorted({each for each, _ in wanted}), "names": sorted({sha256 for _, sha256 in wanted})}
    return {(row.tenant_id, row.sha256) for row in session.connection().execute(_HELD, values)}


DEVICES = Query(_DEVICES, {})


def devices(rows: Sequence[Any]) -> Devices:
    """The devices of the cluster that `DEVICES` found."""
    return Devices([(row.model, row.memory_bytes, row.number) for row in rows])


def _rules(row: Any, limits: Mapping[str, int | None]) -> Rules:
    return Rules(limits, row.longest_time_limit_us, row.highest_priority, row.images, row.isolation_levels)
