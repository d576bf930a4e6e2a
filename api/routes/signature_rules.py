"""Whose signature the images of which repositories must carry."""

from corral.contract import Page
from corral.images import SignatureRuleSpec, SignatureRuleView
from fastapi import APIRouter
from starlette.responses import Response

from api.after_commit import Tell
from api.auth import AdminCaller
from api.once import AskedOnce
from api.paging import AskedPage
from api.paths import SignatureRulePath
from api.transactions import Reading, Writing
from api.views.images import signature_rule_view
from store import signature_rules
from store.image_checks import apply_rules
from store.paging import Position

router = APIRouter(prefix="/signature-rules", tags=["signature-rules"])


@router.get("")
def list_rules(caller: AdminCaller, session: Reading, paging: AskedPage) -> Page[SignatureRuleView]:
    """The rules, by pattern."""
    rows = signature_rules.rule_rows(session, paging.limit, paging.start_name)
    return paging.page(rows, signature_rule_view, lambda row: Position(0, row.pattern))


@router.post("", status_code=201, response_model=SignatureRuleView)
def add(body: SignatureRuleSpec, caller: AdminCaller, session: Writing, once: AskedOnce) -> Response:
    """Ask for a signature from now on; images that it concerns wait until a node has checked theirs."""

    def make() -> SignatureRuleView:
        row = signature_rules.add_rule(
            session, body.pattern, body.key_pem, body.identity, body.issuer, body.transparency_log
        )
        apply_rules(session)
        return signature_rule_view(row)

    return once.create(session, body, make)


@router.delete("/{rule_id}", status_code=204)
def remove(rule_id: SignatureRulePath, caller: AdminCaller, session: Writing, tell: Tell) -> None:
    """Ask for it no longer."""
    signature_rules.remove_rule(session, rule_id)
    apply_rules(session)
    tell.wake()
