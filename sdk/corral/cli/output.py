"""What goes to the terminal: answers to standard output, everything else to standard error."""

import json
import os
import sys
from collections.abc import Iterable, Sequence

from corral.cli.text import plain
from corral.errors import ApiError, CorralError
from pydantic import BaseModel
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

GAP = "  "
WHOLE_CHARACTERS = 32
"""A column of words that are no longer, such as ids, is not broken on a narrow terminal: they are copied from there."""


def console(*, is_error: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji codes, no colours of its own on numbers."""
    return Console(file=sys.stderr if is_error else sys.stdout, markup=False, emoji=False, highlight=False)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows of cells, each one made safe."""
    safe = [[plain(cell) for cell in row] for row in rows]
    if not _has_width():
        _print_lines([list(columns), *safe])
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        is_whole = all(" " not in row[number] and len(row[number]) <= WHOLE_CHARACTERS for row in safe)
        table.add_column(column, overflow="fold", no_wrap=is_whole)
    for row in safe:
        table.add_row(*map(Text, row))
    console().print(table)


def print_fields(fields: Iterable[tuple[str, str]]) -> None:
    """One thing, a line for each field that says something."""
    safe = [(label, plain(value)) for label, value in fields if value]
    if not _has_width():
        _print_lines(safe)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for label, value in safe:
        table.add_row(label, Text(value))
    console().print(table)


def print_json(answer: BaseModel | Sequence[BaseModel] | dict[str, object]) -> None:
    """One JSON document, in ASCII: nothing in it steers a terminal."""
    write_out(json.dumps(_data(answer), indent=2).encode() + b"\n")


def print_line(text: str) -> None:
    """One line of an answer."""
    write_out(plain(text).encode() + b"\n")


def write_out(data: bytes) -> None:
    """Bytes as they are, at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def write_error(data: bytes) -> None:
    """Bytes as they are, beside the answer."""
    sys.stderr.buffer.write(data)
    sys.stderr.buffer.flush()


def note(text: str) -> None:
    """One line for people."""
    print(plain(text), file=sys.stderr, flush=True)


def print_failure(error: CorralError) -> None:
    """Code, detail and help in one line; then where the body was refused, if it was."""
    help_text = f" ({error.help})" if error.help else ""
    note(f"corral: {error.code}: {error.detail}{help_text}")
    for place in error.errors if isinstance(error, ApiError) else []:
        note("  " + ": ".join(place.values()))


def _has_width() -> bool:
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def _print_lines(rows: Sequence[Sequence[str]]) -> None:
    """Aligned, a line for each row: a file has no width, so nothing is wrapped there, and nothing ends in blanks."""
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = (cell + " " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True))
        print_line(GAP.join(padded).rstrip())


def _data(answer: object) -> object:
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    if isinstance(answer, dict):
        return {name: _data(value) for name, value in answer.items()}
    if isinstance(answer, (list, tuple)):
        return [_data(item) for item in answer]
    return answer
