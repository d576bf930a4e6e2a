"""What proves the ledger: chains, receipts, seals, and the keys by which anyone checks them."""

import json
from collections.abc import AsyncIterator
from functools import partial

from corral.contract import Page
from corral.ledger import LedgerCheck, SigningKeys, SigningKeyView
from corral.proofs import SealProof, SealView
from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response, StreamingResponse

from api.auth import AdminCaller, TenantCaller
from api.paging import AskedPage
from api.parts import AppKeyring
from api.paths import SealPath, TenantPath, TenantQuery
from api.transactions import AppDatabase, Database, Reading
from domain.ids import TenantId
from domain.ledger import EMPTY, ChainHead
from store import ledger_check, receipts, seals
from store.chain_rows import chain
from store.paging import Position
from store.signing import Keyring
from store.tables import Seal
from store.tenants import tenant

router = APIRouter(tags=["ledger"])

PAGE_ENTRIES = 1000


@router.get("/ledger", response_class=Response, responses={200: {"content": {"application/x-ndjson": {}}}})
async def export_chain(caller: TenantCaller, database: AppDatabase, tenant_id: TenantQuery = None) -> Response:
    """Every entry of the tenant's chain, a line of JSON for each, from the first on."""
    owner = caller.acting_for(tenant_id)
    await database.read(lambda session: tenant(session, owner))
    return StreamingResponse(_chain(database, owner), media_type="application/x-ndjson")


@router.get("/signing-keys")
def show_signing_keys(caller: TenantCaller, keyring: AppKeyring) -> SigningKeys:
    """The public keys. Keep them while you trust the server: a document proves nothing by a key that comes with it."""
    return SigningKeys(
        keys=[
            SigningKeyView(key_id=key_id, public_key=keyring.public_pem(key_id), signs=key_id == keyring.key_id)
            for key_id in keyring.public
        ]
    )


@router.get("/seals")
def list_seals(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[SealView]:
    """Every seal, the newest first."""
    return paging.page(seals.seals(session, paging.limit, paging.start), _seal_view, _seal_position)


@router.get("/seals/{number}")
def show_seal(number: SealPath, caller: TenantCaller, session: Reading, tenant_id: TenantQuery = None) -> SealProof:
    """A seal, and the proof that the head of the tenant's chain is in it; nothing of other tenants' chains."""
    return SealProof.model_validate(seals.proof(session, number, f"ledger:{caller.acting_for(tenant_id)}"))


@router.get("/tenants/{tenant_id}/ledger/verify")
def verify_ledger(
    tenant_id: TenantPath, caller: AdminCaller, session: Reading, request: Request, paging: AskedPage
) -> Page[LedgerCheck]:
    """Whether its chain is sound and agrees with every seal, and where it first does not; a long one in pieces.

    Copies of the seals outside of the database are compared by `corrald verify`.
    """
    keyring: Keyring | None = request.app.state.keyring
    tenant(session, tenant_id)
    after = EMPTY if paging.start is None else ChainHead(paging.start.key, paging.start.id)
    found = ledger_check.check_piece(session, tenant_id, keyring, after)
    check = LedgerCheck(
        tenant_id=tenant_id,
        is_sound=found.flaw is None,
        entries=found.upto.count,
        first_bad_seq=None if found.flaw is None else found.flaw.seq,
        problem="" if found.flaw is None else found.flaw.problem,
        seals=found.seals,
    )
    following = None if found.is_over else paging.cursor(Position(found.upto.count, found.upto.hash))
    return Page(items=[check], next=following)


async def _chain(database: Database, owner: TenantId) -> AsyncIterator[bytes]:
    """A page at a time, each in a short transaction."""
    seq = 0
    while True:
        lines = await database.read(partial(_lines, owner=owner, after_seq=seq))
        if not lines:
            return
        yield b"".join(lines)
        seq += len(lines)


def _lines(session: Session, owner: TenantId, after_seq: int) -> list[bytes]:
    links = [receipts.link(entry) for entry in chain(session, owner, after_seq, PAGE_ENTRIES)]
    return [json.dumps(link).encode() + b"\n" for link in links]


def _seal_view(row: Seal) -> SealView:
    return SealView(number=row.number, until_us=row.until_us, key_id=seals.key_id(row))


def _seal_position(row: Seal) -> Position:
    return Position(row.number, "")
