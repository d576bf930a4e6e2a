"""`corral images` and `corral gpus`: what there is to ask for."""

from typing import Annotated

import typer
from corral.cli.numbers import moment_text, rough_size_text
from corral.cli.options import AsJson, connect
from corral.cli.output import print_fields, print_json, print_line, print_table
from corral.images import ImageView


def images(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the images that a job can name, or show one."""
    with connect() as client:
        if name is not None:
            print_image(client.image(name), as_json)
            return
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


def print_image(view: ImageView, as_json: bool) -> None:
    """One image, and what a node found in it."""
    if as_json:
        print_json(view)
        return
    check = view.check
    print_fields([
        ("image", view.name),
        ("state", view.state),
        ("reason", view.reason or ""),
        ("reference", view.reference),
        ("CUDA", view.min_cuda or ""),
        ("least driver", view.hosts.least_driver or ""),
        ("could run on", f"{view.hosts.able} of {view.hosts.known} nodes"),
        ("not on", "; ".join(view.hosts.reasons)),
        ("for", "" if view.tenants is None else ", ".join(view.tenants) or "nobody"),
        ("description", view.description or ""),
        ("looked at", "" if check is None else moment_text(check.checked_at)),
        ("size", "" if check is None or check.size_bytes is None else rough_size_text(check.size_bytes)),
        ("signed by", (check.signed_by or "") if check else ""),
    ])  # fmt: skip
    if check is not None and check.findings:
        print_line("")
        print_table(("SETTING", "OF THE IMAGE", "HERE"), [(f.name, f.found, f.instead) for f in check.findings])


def simulated(is_simulated: bool) -> str:
    """The word that marks a device that is none."""
    return "simulated" if is_simulated else ""
