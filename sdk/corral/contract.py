"""What every message of the API shares: strictness, text that is safe to show, pages and problems."""

import re
import unicodedata
from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

T = TypeVar("T")

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def _one_safe_line(text: str) -> str:
    """Refuse what could forge a line, hide itself or steer a terminal."""
    if any(unicodedata.category(char) in _UNSAFE_CATEGORIES for char in text):
        raise ValueError("control, direction and unassigned characters are not allowed")
    return text


def _no_nul(text: str) -> str:
    """Refuse what no process could be given."""
    if _NO_TEXT.search(text):
        raise ValueError("NUL and lone surrogates are not allowed")
    return text


Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
"""A name in lower case: letters, digits, dot, dash, underscore; 1 to 63 characters."""
Line = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(_one_safe_line)]
"""One line of text for people."""
Argument = Annotated[str, StringConstraints(max_length=131_000), AfterValidator(_no_nul)]
"""What a process can be given: kept byte for byte."""
EnvName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Id = Annotated[str, StringConstraints(pattern=r"^[a-z]{3}_[0-9a-z]{26}$")]

RESERVED_ENV = re.compile(r"^(LD_|NVIDIA_|CUDA_MPS_|CUDA_VISIBLE_DEVICES$|DOCKER_|CORRAL_)")
"""Variables that the platform or the runtime's hooks read; a tenant may not set them."""


class Request(BaseModel):
    """A body that somebody sends: nothing unknown, nothing coerced."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class View(BaseModel):
    """A body that the server answers with; a client ignores what it does not know yet."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(View, Generic[T]):
    """One page of a list; `next` is the cursor of the one after, if there is one."""

    items: list[T]
    next: str | None = None


class Problem(View):
    """RFC 9457: why a request was refused."""

    type: str
    title: str
    status: int
    code: str
    """Stable; what a program decides on."""
    detail: str
    help: str = ""
    """What would help."""
    errors: list[dict[str, str]] = []
    """For a body that was refused: where, and why."""
