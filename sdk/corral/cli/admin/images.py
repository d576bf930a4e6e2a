"""`corral admin images`."""

from typing import Annotated

import typer
from corral.cli.catalogue import print_images
from corral.cli.options import AsJson, connect, read
from corral.cli.output import print_json, print_line
from corral.cluster import ImageSpec, ImageView

ImageName = Annotated[str, typer.Argument(metavar="NAME", help="The name that jobs use.")]

app = typer.Typer(no_args_is_help=True, help="The catalogue of images.")


@app.command("list")
def list_images(as_json: AsJson = False) -> None:
    """List the catalogue."""
    with connect() as client:
        print_images(list(client.images()), as_json)


@app.command("add")
def add_image(
    name: ImageName,
    reference: Annotated[
        str,
        typer.Argument(
            metavar="REFERENCE",
            help="REPOSITORY@sha256:…, an image's id in the engine (sha256:…), or host; never a tag.",
        ),
    ],
    min_cuda: Annotated[str | None, typer.Option(help='CUDA inside, such as "12.8".')] = None,
    description: Annotated[str | None, typer.Option(help="A line for people.")] = None,
    as_json: AsJson = False,
) -> None:
    """Admit an image."""
    spec = read(lambda: ImageSpec(name=name, reference=reference, min_cuda=min_cuda, description=description))
    with connect() as client:
        _print(client.add_image(spec), as_json)


@app.command("retire")
def retire_image(name: ImageName, as_json: AsJson = False) -> None:
    """Let no new job name an image."""
    with connect() as client:
        _print(client.retire_image(name), as_json)


def _print(view: ImageView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.name} {view.state} {view.reference}")
