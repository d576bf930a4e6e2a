"""What is told over Redis once a change is committed and answered. All of it are hints: none is waited for."""

from typing import Annotated

from fastapi import BackgroundTasks, Depends, Request

from domain.ids import AttemptId, Fence, JobId, NodeId
from hints.sender import Hints
from store.attempts import StopHint


class AfterCommit:
    """Hints of one request. They leave after its answer, which leaves after the commit."""

    def __init__(self, request: Request, background: BackgroundTasks) -> None:
        self._hints: Hints = request.app.state.hints
        self._background = background

    def wake(self) -> None:
        """The dispatcher may have something to do."""
        self._background.add_task(self._hints.wake)

    def changed(self, job_id: str) -> None:
        """Who follows the job should look again."""
        self._background.add_task(self._hints.changed, JobId(job_id))

    def stop(self, hint: StopHint | None) -> None:
        """The node that holds the attempt should stop it, if there is one."""
        if hint is not None:
            node_id, attempt_id, fence = NodeId(hint.node_id), AttemptId(hint.attempt_id), Fence(hint.fence)
            self._background.add_task(self._hints.stop, node_id, attempt_id, fence)


async def _after_commit(request: Request, background: BackgroundTasks) -> AfterCommit:
    return AfterCommit(request, background)


Tell = Annotated[AfterCommit, Depends(_after_commit)]
