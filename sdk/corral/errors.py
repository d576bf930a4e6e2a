"""Everything that a client can meet.

CorralError
├── ApiError        the server refused
├── Unreachable     no answer, however often it was asked
├── NotConfigured   no server or no key is known
├── InputRefused    the directory cannot be sent as an input
└── UnsafeDownload  the artifact's name or content is not what it should be
"""


class CorralError(Exception):
    """A refusal, said for people; `code` is stable and `help` says what would help, or nothing."""

    code = "error"

    def __init__(self, detail: str, help: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.help = help


class ApiError(CorralError):
    """The server's problem, as it sent it."""

    def __init__(
        self,
        code: str,
        status: int,
        detail: str,
        help: str = "",
        errors: list[dict[str, str]] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(detail, help)
        self.code = code
        self.status = status
        self.errors = errors or []
        """For a body that was refused: where, and why."""
        self.retry_after_seconds = retry_after_seconds
        """When the server asked to be left alone for a while."""

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}"


class Unreachable(CorralError):
    code = "unreachable"


class NotConfigured(CorralError):
    code = "not_configured"


class InputRefused(CorralError):
    code = "input_refused"


class UnsafeDownload(CorralError):
    code = "unsafe_download"
