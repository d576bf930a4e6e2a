"""How far the pull of an image has come."""

from corral.contract import View


class PullProgress(View):
    """Of one image on one node. The sizes are those of the layers that have been announced so far."""

    layers_done: int
    layers: int
    bytes_done: int
    bytes_total: int
