"""A job's receipt."""

from corral.proofs import Receipt
from fastapi import APIRouter

from api.auth import TenantCaller
from api.parts import AppKeyring
from api.paths import JobPath
from api.transactions import Reading
from store import receipts

router = APIRouter(prefix="/jobs", tags=["jobs"])


@router.get("/{job_id}/receipt")
def show_receipt(job_id: JobPath, caller: TenantCaller, session: Reading, keyring: AppKeyring) -> Receipt:
    """What the job used and cost so far: its entries, their place in the tenant's chain and their sums, signed."""
    document = receipts.receipt(session, caller.scope, job_id, keyring.key_id)
    return Receipt.model_validate({**document, "signature": keyring.sign(document)})
