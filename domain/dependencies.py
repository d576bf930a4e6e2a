"""When a job that waits for others may start, and when it never can."""

from enum import StrEnum


class Condition(StrEnum):
    """How what is waited for must end. An array ends well if all of its jobs do."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"

    def is_met(self, is_success: bool) -> bool:
        """Whether an end like this is what was waited for; if not, it never will be."""
        return self is Condition.ANY or (self is Condition.SUCCESS) == is_success
