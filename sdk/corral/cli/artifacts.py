"""`corral artifacts`."""

from pathlib import Path
from typing import Annotated

import typer
from corral.cli.options import AsJson, JobId, connect
from corral.cli.output import note, print_json, print_table
from corral.quantities import size_text


def artifacts(
    job: JobId,
    download: Annotated[Path | None, typer.Option(metavar="DIR", help="Write them below here.")] = None,
    name: Annotated[list[str] | None, typer.Option(help="Only this one; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the files that a job left, or download them."""
    with connect() as client:
        found = [artifact for artifact in client.job(job).artifacts if not name or artifact.name in name]
        if missing := set(name or ()) - {artifact.name for artifact in found}:
            raise typer.BadParameter(f"the job left no {', '.join(sorted(missing))}", param_hint="--name")
        for artifact in found if download else []:
            note(str(artifact.download(download or Path())))
    if as_json:
        print_json([artifact.view for artifact in found])
    elif not download:
        print_table(
            ("NAME", "SIZE", "SHA256"),
            [(a.name, size_text(a.view.size_bytes), a.view.sha256.removeprefix("sha256:")) for a in found],
        )
