"""What a node's worker says: that it lives, and how its attempts fare. It can touch only what was assigned to it."""

import base64

import anyio
from corral.node import (
    AttemptSecrets,
    AttemptStanding,
    Claim,
    Ended,
    Heartbeat,
    HeartbeatAnswer,
    ImageFindings,
    NodeToken,
    Order,
    Progress,
    Registered,
    Registration,
    SecretsAsked,
    SecretValue,
    Started,
)
from fastapi import APIRouter, BackgroundTasks
from sqlmodel import Session

from api.after_commit import Tell
from api.auth import JoiningNode, NodeCaller, Token
from api.node_facts import (
    devices_seen,
    ending,
    facts,
    findings,
    found_image,
    heartbeat_answer,
    order,
    standing,
)
from api.parts import AppLogs, AppMasterKeys, AppSettings
from api.paths import AttemptPath
from api.transactions import AppDatabase, Writing
from domain.ids import NodeId
from domain.images import rule_for
from store import attempts, ends, image_checks, image_work, node_tokens, nodes, signature_rules
from store.artifacts import writable
from store.events import record
from store.jobs import job_of
from store.sealing import unseal
from store.secrets import for_node

router = APIRouter(prefix="/node", tags=["node"])


@router.post("/register")
def register(
    body: Registration, known: JoiningNode, token: Token, session: Writing, settings: AppSettings, tell: Tell
) -> Registered:
    """Join with a one-time token, which is answered with the node's own; or say with that what the node is now."""
    node_id, own_token = _joined(session, token) if known is None else (known, None)
    node = nodes.register(session, node_id, facts(body.facts))
    tell.wake()
    return Registered(
        node_id=node.id, node_name=node.name, token=own_token, heartbeat_seconds=settings.heartbeat_seconds
    )


@router.post("/token")
def renew_token(node_id: NodeCaller, session: Writing) -> NodeToken:
    """A new token for the node. The one it has works until the new one is first used."""
    return NodeToken(token=node_tokens.renew(session, node_id))


@router.post("/heartbeat")
def heartbeat(body: Heartbeat, node_id: NodeCaller, session: Writing, tell: Tell) -> HeartbeatAnswer:
    """A sign of life, answered with what to do with each sandbox that was named."""
    held = [nodes.named(sandbox.attempt_id, sandbox.fence) for sandbox in body.held]
    beat = nodes.heartbeat(session, node_id, body.boot_id, devices_seen(body.devices), held, body.problems)
    if beat.is_news:
        tell.wake()
    tasks = image_work.exchange(session, node_id, [image.model_dump() for image in body.images])
    return heartbeat_answer(beat, tasks)


@router.post("/images/findings", status_code=204)
def image_findings(body: ImageFindings, node_id: NodeCaller, session: Writing, tell: Tell) -> None:
    """What was found behind a reference that this node was asked to look at."""
    image_checks.note_found(session, node_id, found_image(body))
    tell.wake()


@router.post("/attempts/{attempt_id}/claim")
def claim(attempt_id: AttemptPath, body: Claim, node_id: NodeCaller, session: Writing, tell: Tell) -> Order:
    """Take an attempt that waits for this node; taking it again gives the same order."""
    claimed = attempts.claim(session, node_id, attempt_id, body.fence)
    tell.changed(claimed.job.id)
    return order(claimed, rule_for(claimed.job.image_reference, signature_rules.rules(session)))


@router.post("/attempts/{attempt_id}/secrets")
async def give_secrets(
    attempt_id: AttemptPath, body: SecretsAsked, node_id: NodeCaller, database: AppDatabase, keys: AppMasterKeys
) -> AttemptSecrets:
    """The values of the secrets that the job names, as they are now; recorded each time."""
    held = await database.write(lambda session: for_node(session, node_id, attempt_id, body.fence))
    values = await anyio.to_thread.run_sync(lambda: [unseal(keys, s.sealed, s.place, s.version) for s in held])
    return AttemptSecrets(
        secrets=[
            SecretValue(name=each.name, value=base64.b64encode(value).decode())
            for each, value in zip(held, values, strict=True)
        ]
    )


@router.post("/attempts/{attempt_id}/started")
def started(
    attempt_id: AttemptPath, body: Started, node_id: NodeCaller, session: Writing, tell: Tell
) -> AttemptStanding:
    """The gate was opened."""
    found = attempts.started(session, node_id, attempt_id, body.fence, body.prepare_us, body.isolation)
    tell.changed(job_of(session, attempt_id))
    return standing(found)


@router.post("/attempts/{attempt_id}/progress")
def progress(
    attempt_id: AttemptPath, body: Progress, node_id: NodeCaller, session: Writing, tell: Tell
) -> AttemptStanding:
    """Something worth telling while the attempt is prepared."""
    attempt = writable(session, node_id, attempt_id, body.fence)
    if body.pull is not None:
        attempts.note_pull(session, attempt_id, body.pull.model_dump())
        tell.changed(attempt.job_id)
        return standing(attempts.standing(session, attempt_id))
    record(
        session,
        "progress",
        tenant_id=attempt.tenant_id,
        job_id=attempt.job_id,
        attempt_id=attempt_id,
        node_id=node_id,
        fence=body.fence,
        text=body.text,
    )
    tell.changed(attempt.job_id)
    return standing(attempts.standing(session, attempt_id))


@router.post("/attempts/{attempt_id}/ended")
def ended(
    attempt_id: AttemptPath,
    body: Ended,
    node_id: NodeCaller,
    session: Writing,
    tell: Tell,
    logs: AppLogs,
    background: BackgroundTasks,
) -> AttemptStanding:
    """The attempt is over; its devices are free where they were found clean."""
    found = ends.ended(session, node_id, attempt_id, body.fence, ending(body), findings(body.devices))
    tell.wake()
    tell.changed(job_of(session, attempt_id))
    background.add_task(logs.compact, attempt_id)
    return standing(found)


def _joined(session: Session, token: str) -> tuple[NodeId, str]:
    node, own_token = node_tokens.join(session, token)
    return NodeId(node.id), own_token
