"""Brings an attempt's image to the node, and tells how far it has come."""

import logging
from typing import Final

from corral.node import Progress, PullReport

from domain.levels import ImageKind
from sandbox.contract import LaunchOrder
from worker import orders
from worker.api_link import ApiFault
from worker.contact import Leaving
from worker.course import Course
from worker.image_keeper import pull_report
from worker.state_folder import Stage

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0
"""How often a wait for the image looks how far it is, and whether the attempt is still wanted."""


def bring_image(course: Course, order: LaunchOrder) -> None:
    """Have the signature checked where one is asked for, and the image on this node; others may wait for the same pull.

    Raises:
        ImageRefused: it is not signed as it should be.
        SandboxFault: it cannot be brought, or its signature cannot be checked here.
        Dropped, StoppedEarly: nobody wants it any more; the pull goes on for others.
        Leaving: the agent ends.
    """
    keeping = course.tools.keeping
    if order.image_kind is not ImageKind.ENGINE or keeping is None:
        return
    demand = orders.ordered(course.folder.facts(Stage.CLAIMED) or {}).signature
    if demand is not None:
        keeping.signatures.check(order.image_reference, demand)
    course.with_engine(lambda: _bring(course, order.image_reference))


def _bring(course: Course, reference: str) -> None:
    keeping = course.tools.keeping
    pull = keeping.images.ensure(reference) if keeping is not None else None
    if pull is None:
        return
    _tell(course, "its image is pulled", None)
    told: PullReport | None = None
    while not pull.wait(LOOK_S):
        course.check()
        if course.tools.leaving.is_set():
            raise Leaving
        if (now := pull_report(pull.progress())) != told:
            _tell(course, "", now)
            told = now
    pull.result()


def _tell(course: Course, text: str, pull: PullReport | None) -> None:
    """For the job's page; if it cannot be told, nothing depends on it."""
    progress = Progress(fence=course.folder.fence, text=text, pull=pull)
    try:
        course.heed(course.tools.api.progress(course.folder.attempt_id, progress))
    except ApiFault as fault:
        log.info("%s: its progress was not told: %s", course.folder.attempt_id, fault)
