"""What nodes find behind the references of the catalogue: who is asked to look, and what was found."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import update
from sqlmodel import Session, col, select

from domain.errors import Conflict
from domain.images import CheckState, SignatureRule, rule_for
from store.clock import now_us
from store.events import record
from store.signature_rules import rules
from store.tables import Image, ImageCheck

ASK_AGAIN_US = 120_000_000
"""A node that was asked to look and said nothing for so long is forgotten, and the next one is asked."""
ASKED_AT_ONCE = 4
"""Most images that a node is given to look at with one heartbeat."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a node says of an image that it was asked to look at."""

    reference: str
    findings: Sequence[dict[str, str]]
    """What the gate makes harmless, and how."""
    refusals: Sequence[str]
    """Why it may not run; empty if it may."""
    cuda: str | None
    size_bytes: int | None
    signed_by: str | None
    trouble: str | None
    """Why the node could not look at all; then the rest says nothing."""


def ask_for_check(session: Session, reference: str) -> None:
    """Let a node look at it, again if one has before."""
    rule = rule_for(reference, rules(session))
    check = session.get(ImageCheck, reference)
    if check is None:
        check = ImageCheck(reference=reference)
        session.add(check)
    check.state, check.rule_id = CheckState.WAITING, None if rule is None else rule.rule_id
    check.trouble, check.asked_node_id, check.asked_us = None, None, 0
    session.flush()


def apply_rules(session: Session) -> None:
    """After a change of the rules: look again at every image for which another rule counts now."""
    known = rules(session)
    checks = {check.reference: check for check in session.exec(select(ImageCheck))}
    catalogue = session.exec(select(Image.reference).where(Image.kind == "engine")).all()
    for reference in sorted({*checks, *catalogue}):
        rule = rule_for(reference, known)
        before = checks[reference].rule_id if reference in checks else None
        if (None if rule is None else rule.rule_id) != before:
            ask_for_check(session, reference)


def take_checks(session: Session, node_id: str) -> list[tuple[str, SignatureRule | None]]:
    """Images that this node is to look at now, each with the rule for its signature.

    A node that had trouble with one is asked again only after a while, so that others come before it.
    """
    now = now_us(session)
    waiting = session.exec(
        select(ImageCheck)
        .where(ImageCheck.state == CheckState.WAITING)
        .where(
            (col(ImageCheck.asked_us) < now - ASK_AGAIN_US)
            | (col(ImageCheck.trouble).is_not(None) & (col(ImageCheck.asked_node_id) != node_id))
        )
        .order_by(col(ImageCheck.asked_us), col(ImageCheck.reference))
        .limit(ASKED_AT_ONCE)
    ).all()
    known = {rule.rule_id: rule for rule in rules(session)} if waiting else {}
    taken = []
    for check in sorted(waiting, key=lambda check: check.reference):  # the order in which all lock these rows
        is_taken = session.execute(
            update(ImageCheck)
            .where(col(ImageCheck.reference) == check.reference, col(ImageCheck.asked_us) == check.asked_us)
            .values(asked_us=now, asked_node_id=node_id, trouble=None)
            .execution_options(synchronize_session=False)
        )
        if is_taken.rowcount == 1:  # type: ignore[attr-defined]
            taken.append((check.reference, None if check.rule_id is None else known[check.rule_id]))
    return taken


def note_found(session: Session, node_id: str, found: Found) -> None:
    """Take down what a node found.

    Raises:
        Conflict: it was not this node that was asked, or the answer came too late.
    """
    check = session.exec(
        select(ImageCheck)
        .where(ImageCheck.reference == found.reference)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).first()
    if check is None or check.state != CheckState.WAITING or check.asked_node_id != node_id:
        raise Conflict("this node was not asked to look at that image")
    if found.trouble is not None:
        check.trouble = found.trouble
        session.flush()
        return
    check.state = CheckState.REFUSED if found.refusals else CheckState.GOOD
    check.findings, check.refusals = [dict(each) for each in found.findings], list(found.refusals)
    check.cuda, check.size_bytes, check.signed_by = found.cuda, found.size_bytes, found.signed_by
    check.trouble, check.node_id, check.checked_us = None, node_id, now_us(session)
    session.flush()
    if found.cuda is not None:
        session.execute(
            update(Image)
            .where(col(Image.reference) == found.reference, col(Image.min_cuda).is_(None))
            .values(min_cuda=found.cuda)
            .execution_options(synchronize_session=False)
        )
    text = f"{found.reference}: {'; '.join(found.refusals) or 'nothing stands against it'}"
    record(session, f"image_check_{check.state}", node_id=node_id, text=text[:2000])
