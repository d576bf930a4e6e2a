"""What devices there are to ask for."""

from corral.cluster import GpuAvailability
from corral.contract import Page
from fastapi import APIRouter

from api.auth import TenantCaller
from api.transactions import Reading
from api.views.cluster import gpu_availability
from store.devices import availability

router = APIRouter(prefix="/gpus", tags=["gpus"])


@router.get("")
def list_gpus(caller: TenantCaller, session: Reading) -> Page[GpuAvailability]:
    """Kinds of device, and how many of each are free. All of them fit on one page."""
    return Page(items=[gpu_availability(kind) for kind in availability(session)])
