"""Secrets: set by a tenant, given to its jobs as files, shown to nobody."""

import base64
import binascii
from typing import Annotated, Literal

from corral.contract import Request, View
from pydantic import Field, StringConstraints, model_validator

SECRET_BYTES_MIN = 6
"""A shorter one could not be told from ordinary output where it is blacked out."""
SECRET_BYTES_MAX = 64 * 1024
SECRETS_PER_JOB_MAX = 32
SECRETS_PLACE = "/run/secrets"
"""The folder inside a job; each secret that the job names is a file there, by its name."""

SecretName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
"""Letters, digits, underscores, dots and dashes, beginning with a letter or an underscore; at most 64."""


class SecretSpec(Request):
    """A secret's value, as text or as bytes in base64."""

    value: str = Field(max_length=SECRET_BYTES_MAX * 4 // 3 + 4, repr=False)
    encoding: Literal["text", "base64"] = "text"

    @model_validator(mode="after")
    def _has_a_fit_value(self) -> "SecretSpec":
        if not SECRET_BYTES_MIN <= len(self.content) <= SECRET_BYTES_MAX:
            raise ValueError(f"a secret has {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")
        return self

    @classmethod
    def of(cls, content: bytes) -> "SecretSpec":
        """The secret that is these bytes."""
        return cls(value=base64.b64encode(content).decode(), encoding="base64")

    @property
    def content(self) -> bytes:
        """The bytes that jobs will read.

        Raises:
            ValueError: it is not what it says.
        """
        try:
            return self.value.encode() if self.encoding == "text" else base64.b64decode(self.value, validate=True)
        except (UnicodeEncodeError, binascii.Error):
            raise ValueError(f"the value is not {'text' if self.encoding == 'text' else 'base64'}") from None


class SecretView(View):
    """What is shown of a secret: never its value."""

    tenant_id: str
    name: str
    version: int
    """Grows with each value that is set."""
    size_bytes: int
    created_at: int
    """Of this version."""
    last_used_at: int | None
    """When a node was last given it for a job."""
