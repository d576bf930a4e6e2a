"""What devices there are to ask for."""

from corral.cluster import GpuAvailability
from corral.contract import Page
from fastapi import APIRouter

from api.auth import TenantCaller
from api.paging import AskedPage
from api.transactions import Reading
from api.views.cluster import gpu_availability
from store.devices import availability
from store.paging import Position

router = APIRouter(prefix="/gpus", tags=["gpus"])


@router.get("")
def list_gpus(caller: TenantCaller, session: Reading, paging: AskedPage) -> Page[GpuAvailability]:
    """Kinds of device, and how many of each are free."""
    first = 0 if paging.start is None else max(0, paging.start.key + 1)
    rows = list(enumerate(availability(session)))[first : first + paging.limit + 1]
    return paging.page(rows, lambda row: gpu_availability(row[1]), lambda row: Position(row[0], ""))
