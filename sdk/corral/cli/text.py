"""Text from others, made safe for a terminal."""

import shlex
from collections.abc import Sequence


def plain(text: str) -> str:
    """The text with every character that could steer a terminal, hide or forge a line spelled out."""
    return "".join(char if char.isprintable() else _spelled(char) for char in text)


def command_text(command: Sequence[str]) -> str:
    """A command as one would type it."""
    return shlex.join(command)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")
