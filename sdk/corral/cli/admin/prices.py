"""`corral admin prices`."""

import time
from typing import Annotated

import typer
from corral.cli.numbers import moment_text, moment_us, money_micro, money_text
from corral.cli.options import AsJson, connect, merged, pairs, read
from corral.cli.output import print_json, print_line, print_table
from corral.prices import PriceSpec, PriceView

app = typer.Typer(no_args_is_help=True, help="Prices of a GPU-hour.")


@app.command("list")
def list_prices(
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None, as_json: AsJson = False
) -> None:
    """List every price: in force, scheduled and past."""
    with connect() as client:
        found = list(client.prices(model=model))
    print_json(found) if as_json else _print(found)


@app.command("set")
def set_price(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model, or * for every model without its own.")],
    price: Annotated[str, typer.Argument(metavar="PRICE", help="Of a GPU-hour, such as 2.50.")],
    start: Annotated[
        str | None, typer.Option("--from", help='A date or a time to come, such as "2027-01-01"; else from now on.')
    ] = None,
    priority: Annotated[str | None, typer.Option(help="Only for jobs of this class: low, normal, …")] = None,
    rate: Annotated[
        list[str] | None,
        typer.Option(metavar="CAUSE=N", help="Per mille of the price, for preparing, running or stopping."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Set the price of a model, for what gets its GPUs from then on."""
    valid_from = None if start is None else read(lambda: moment_us(start, time.time_ns() // 1000))
    said = {
        "priority": priority,
        "valid_from": valid_from,
        "rates": read(lambda: {name: int(value) for name, value in pairs(rate or [], "CAUSE=N").items()}),
    }
    named = {"model": model, "micro_per_gpu_hour": read(lambda: money_micro(price))}
    spec = read(lambda: PriceSpec.model_validate(merged(named, said)))
    with connect() as client:
        found = client.set_price(spec)
    print_json(found) if as_json else _print([found])


@app.command("delete")
def take_back_price(
    price_id: Annotated[str, typer.Argument(metavar="PRICE", help="The id of a price that is not in force yet.")],
    as_json: AsJson = False,
) -> None:
    """Delete a scheduled price, before it is in force."""
    with connect() as client:
        client.take_back_price(price_id)
    print_json({"id": price_id, "state": "deleted"}) if as_json else print_line(f"{price_id} deleted")


def _print(prices: list[PriceView]) -> None:
    print_table(
        ("PRICE", "MODEL", "PRIORITY", "PER GPU HOUR", "FROM", "STATE", "RATES"),
        [
            (
                p.id, p.model, p.priority, money_text(p.micro_per_gpu_hour),
                "the start" if p.valid_from == 0 else moment_text(p.valid_from), p.state, _rates_text(p),
            )
            for p in prices
        ],
    )  # fmt: skip


def _rates_text(price: PriceView) -> str:
    rates = price.rates.model_dump(exclude={"platform_fault"})
    return " ".join(f"{cause}={rate}" for cause, rate in rates.items() if rate != 1000) or "full"
