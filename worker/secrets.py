"""A job's secrets on its node: fetched when its sandbox is made, kept in memory, and taken out of what is told of it.

Nothing of a value is journaled, sent as a hint, or handed on by an argument or an environment.
"""

from collections.abc import Mapping

from sandbox.contract import NO_SECRETS, LaunchOrder, SandboxFault, SandboxId, SecretMissing
from sandbox.runner.redaction import Forms
from worker.api_link import Refused
from worker.course import Course
from worker.state_folder import Stage

GONE = "secret_gone"
NOTHING = Forms({})


def fetched(course: Course, order: LaunchOrder) -> Mapping[str, bytes]:
    """The values that the job's secrets have now.

    Raises:
        SecretMissing: one was deleted since the job was submitted.
        SandboxFault: the API cannot give them.
        Dropped, Leaving: nobody wants to know.
    """
    if not order.secrets:
        return NO_SECRETS
    try:
        return course.with_api(lambda: course.tools.api.secrets(order.attempt_id, order.fence))
    except Refused as refusal:
        if refusal.code == GONE:
            raise SecretMissing(str(refusal)) from refusal
        raise SandboxFault(f"its secrets cannot be had: {refusal}") from refusal


def forms(course: Course, order: LaunchOrder) -> Forms:
    """What to black out: the values that the sandbox was given, read from there, whatever they are by now.

    Raises:
        SandboxFault: they are not known any more.
    """
    opening = course.folder.facts(Stage.OPENING)
    if not order.secrets or opening is None:
        return NOTHING  # nothing of the tenant's has run
    sandbox_id = SandboxId(opening["sandbox_id"])
    return Forms(course.with_engine(lambda: course.box(order.level).secrets(sandbox_id, order)))
