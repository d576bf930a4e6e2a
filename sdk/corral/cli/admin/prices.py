"""`corral admin prices`."""

from typing import Annotated

import typer
from corral.accounts import PriceSpec, PriceView
from corral.cli.numbers import money_micro, money_text
from corral.cli.options import AsJson, connect, read
from corral.cli.output import print_json, print_table

app = typer.Typer(no_args_is_help=True, help="Prices of a GPU-hour.")


@app.command("list")
def list_prices(as_json: AsJson = False) -> None:
    """List every price."""
    with connect() as client:
        found = list(client.prices())
    print_json(found) if as_json else _print(found)


@app.command("set")
def set_price(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or * for every model without its own.")],
    price: Annotated[str, typer.Argument(metavar="PRICE", help="Of a GPU-hour, such as 2.50.")],
    as_json: AsJson = False,
) -> None:
    """Set the price of a model."""
    spec = read(lambda: PriceSpec(model=model, micro_per_gpu_hour=money_micro(price)))
    with connect() as client:
        found = client.set_price(spec)
    print_json(found) if as_json else _print([found])


def _print(prices: list[PriceView]) -> None:
    print_table(("MODEL", "PER GPU HOUR"), [(p.model, money_text(p.micro_per_gpu_hour)) for p in prices])
