"""Text from others, made safe for a terminal."""

import shlex
from collections.abc import Sequence

COMMAND_CHARACTERS = 120
"""Enough to know a job by; `corral show --json` has all of it."""


def plain(text: str) -> str:
    """The text with every character that could steer a terminal, hide or forge a line spelled out."""
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def command_text(command: Sequence[str], most: int = COMMAND_CHARACTERS) -> str:
    """A command as one would type it; a long one is cut."""
    text = plain(shlex.join(command))
    return text if len(text) <= most else text[: most - 1] + "…"


def count_text(count: int, what: str) -> str:
    """How many of it, as in "1 GPU" and "2 GPUs"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
