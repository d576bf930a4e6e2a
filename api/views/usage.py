"""Usage and the ledger's lines, as they are shown: as JSON and as CSV."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from corral.ledger import LedgerEntryView, UsageRow, UsageSum, UsageView

from domain.calendar import Period
from domain.money import FULL_MILLI, gpu_hours_text
from store.tables import LedgerEntry
from store.usage import LABEL, Key, Question, Sum, Usage

FIELDS: Mapping[str, str] = {
    "tenant": "tenant_id",
    "member": "member_id",
    "key": "key_id",
    "job": "job_id",
    "node": "node_id",
}
"""Where a row shows the value of a group, if not under the group's own name."""
UNSAFE_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet take a cell for a formula."""
ROWS_AT_ONCE = 500


def entry_view(entry: LedgerEntry) -> LedgerEntryView:
    """A line of the ledger."""
    values = entry.model_dump()
    rate = FULL_MILLI if entry.rate_milli is None else entry.rate_milli
    return LedgerEntryView.model_validate({**values, "rate_milli": rate, "posted_at": entry.posted_us})


def usage_view(question: Question, found: Usage) -> UsageView:
    """The sums, sorted by what they are grouped by."""
    total = _total(found)
    return UsageView(
        since=question.since_us,
        until=question.until_us,
        tz=str(question.zone),
        group_by=list(question.groups),
        rows=[_row(question.groups, key, found) for key in _keys(found)],
        total_gpu_us_milli=total.gpu_us_milli,
        total_gpu_hours=gpu_hours_text(total.gpu_us_milli),
        total_cost_micro=total.cost_micro,
    )


def usage_csv(question: Question, found: Usage) -> Iterator[bytes]:
    """The same as a table; by tenant, with what those below used in columns of their own."""
    names = [FIELDS.get(group, group) for group in question.groups]
    sums = ["gpu_us_milli", "gpu_hours", "cost", "cost_micro", "entries"]
    below = [f"with_below_{name}" for name in sums] if "tenant" in question.groups else []
    return csv_lines([*names, *sums, *below], _cells(question, found))


def csv_lines(columns: Sequence[str] | None, rows: Iterable[Sequence[str | int | None]]) -> Iterator[bytes]:
    """A table in CSV, some rows at a time; without columns, a table that goes on."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    if columns is not None:
        writer.writerow(columns)
    for number, row in enumerate(rows, 1):
        writer.writerow(row)
        if number % ROWS_AT_ONCE == 0:
            yield _taken(buffer)
    yield _taken(buffer)


def safe_cell(text: str | None) -> str:
    """What somebody else wrote, so that no spreadsheet takes it for a formula."""
    if text is None:
        return ""
    return f"'{text}" if text.startswith(UNSAFE_STARTS) else text


def money(micro: int) -> str:
    """Millionths as a decimal, with every digit."""
    whole, rest = divmod(abs(micro), 10**6)
    return f"{'-' if micro < 0 else ''}{whole}.{rest:06d}"


def _taken(buffer: io.StringIO) -> bytes:
    data = buffer.getvalue().encode()
    buffer.seek(0)
    buffer.truncate()
    return data


def _cells(question: Question, found: Usage) -> Iterator[Sequence[str | int | None]]:
    for key in _keys(found):
        cells = [safe_cell(_text(value)) for value in key]
        of = [found.own.get(key, Sum()), *([found.with_below[key]] if key in found.with_below else [])]
        yield [*cells, *(cell for each in of for cell in _sum_cells(each))]


def _sum_cells(found: Sum) -> Sequence[str | int]:
    hours = gpu_hours_text(found.gpu_us_milli)
    return (found.gpu_us_milli, hours, money(found.cost_micro), found.cost_micro, found.entries)


def _row(groups: Sequence[str], key: Key, found: Usage) -> UsageRow:
    values: dict[str, Any] = {"labels": {}}
    for group, value in zip(groups, key, strict=True):
        if group.startswith(LABEL):
            values["labels"][group.removeprefix(LABEL)] = _text(value)
        else:
            values[FIELDS.get(group, group)] = _text(value)
    below = found.with_below.get(key)
    return UsageRow(
        **values, **_sum(found.own.get(key, Sum())), with_below=None if below is None else UsageSum(**_sum(below))
    )


def _sum(found: Sum) -> dict[str, Any]:
    return {
        "gpu_us_milli": found.gpu_us_milli,
        "gpu_hours": gpu_hours_text(found.gpu_us_milli),
        "cost_micro": found.cost_micro,
        "entries": found.entries,
    }


def _total(found: Usage) -> Sum:
    total = Sum()
    for each in found.own.values():
        total.add(each.gpu_us_milli, each.cost_micro, each.entries)
    return total


def _keys(found: Usage) -> list[Key]:
    """Every line once, sorted; a tenant without use of its own has one if there is some below it."""
    return sorted({**found.own, **found.with_below}, key=lambda key: [(value is not None, value) for value in key])


def _text(value: str | Period | None) -> str | None:
    return value.name if isinstance(value, Period) else value
