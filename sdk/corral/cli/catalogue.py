"""`corral images` and `corral gpus`: what there is to ask for."""

from corral.cli.numbers import rough_size_text
from corral.cli.options import AsJson, connect
from corral.cli.output import print_json, print_table
from corral.cluster import ImageView


def images(as_json: AsJson = False) -> None:
    """List the images that a job can name."""
    with connect() as client:
        print_images(list(client.images()), as_json)


def gpus(as_json: AsJson = False) -> None:
    """List the kinds of device that a job can ask for."""
    with connect() as client:
        found = list(client.gpus())
    if as_json:
        print_json(found)
        return
    print_table(
        ("MODEL", "MEMORY", "FREE", "USABLE", "TOTAL", ""),
        [
            (
                g.model,
                rough_size_text(g.memory_bytes),
                str(g.free),
                str(g.usable),
                str(g.total),
                simulated(g.is_simulated),
            )
            for g in found
        ],
    )


def print_images(images: list[ImageView], as_json: bool) -> None:
    """Images of the catalogue."""
    if as_json:
        print_json(images)
        return
    print_table(
        ("NAME", "STATE", "CUDA", "REFERENCE", "DESCRIPTION"),
        [(i.name, i.state, i.min_cuda or "", i.reference, i.description or "") for i in images],
    )


def simulated(is_simulated: bool) -> str:
    """The word that marks a device that is none."""
    return "simulated" if is_simulated else ""
