"""`corral admin nodes`."""

from typing import Annotated

import typer
from corral.cli.catalogue import simulated
from corral.cli.numbers import moment_text, pull_text, rough_size_text
from corral.cli.options import AsJson, NodeRef, connect, node_id, read
from corral.cli.output import note, print_fields, print_json, print_line, print_table
from corral.cluster import JoinTokenSpec, NodeView
from corral.quantities import duration_us

app = typer.Typer(no_args_is_help=True, help="Nodes.")


@app.command("list")
def list_nodes(as_json: AsJson = False) -> None:
    """List every node."""
    with connect() as client:
        found = list(client.nodes())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NODE", "STATE", "GPUS", "CPUS USED", "MEMORY USED", "LEVELS", "LAST BEAT"),
        [
            (
                n.name, n.state, _gpus_text(n), f"{_cpus_text(n.cpus_milli_used)} of {_cpus_text(n.cpus_milli)}",
                _used_memory_text(n), ", ".join(n.levels), moment_text(n.last_beat_at),
            )
            for n in found
        ],
    )  # fmt: skip


@app.command("show")
def show_node(node: NodeRef, as_json: AsJson = False) -> None:
    """Show a node and its devices."""
    with connect() as client:
        found = client.node(node_id(client, node))
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("node", found.id),
            ("name", found.name),
            ("state", found.state),
            ("CPUs", f"{_cpus_text(found.cpus_milli_used)} of {_cpus_text(found.cpus_milli)} used"),
            ("memory", f"{_used_memory_text(found)} used"),
            ("scratch", rough_size_text(found.scratch_bytes)),
            ("driver", found.driver_version or "none"),
            ("CUDA", found.cuda_driver or "none"),
            ("levels", ", ".join(found.levels) or "none"),
            *((level, "; ".join(reasons)) for level, reasons in found.level_reasons.items()),
            ("last beat", moment_text(found.last_beat_at)),
            ("revoked", moment_text(found.revoked_at)),
        ]
    )
    print_line("")
    print_table(
        ("GPU", "MODEL", "MEMORY", "STATE", "HEALTH", "USED", ""),
        [
            (
                g.uuid, g.model, rough_size_text(g.memory_bytes), g.state, f"{g.health} {g.health_reason}".strip(),
                f"{g.used_milli}/1000", simulated(g.is_simulated),
            )
            for g in found.gpus
        ],
    )  # fmt: skip
    if found.images:
        print_line("")
        print_table(
            ("IMAGE", "SIZE", ""),
            [
                (
                    i.reference,
                    "" if i.size_bytes is None else rough_size_text(i.size_bytes),
                    "" if i.pull is None else f"is pulled: {pull_text(i.pull)}",
                )
                for i in found.images
            ],
        )


@app.command("drain")
def drain_node(node: NodeRef, as_json: AsJson = False) -> None:
    """Let nothing new start on a node."""
    with connect() as client:
        _print_state(client.drain_node(node_id(client, node)), as_json)


@app.command("resume")
def resume_node(node: NodeRef, as_json: AsJson = False) -> None:
    """Let a node take jobs again."""
    with connect() as client:
        _print_state(client.resume_node(node_id(client, node)), as_json)


@app.command("lost")
def lose_node(
    node: NodeRef,
    yes: Annotated[bool, typer.Option("--yes", help="It is known that nothing runs there any more.")] = False,
    as_json: AsJson = False,
) -> None:
    """Declare a node gone for good; its jobs start elsewhere."""
    if not yes:
        typer.confirm("Is it certain that nothing runs there any more?", abort=True, err=True)
    with connect() as client:
        _print_state(client.lose_node(node_id(client, node)), as_json)


@app.command("join-token")
def create_join_token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name that the node will have.")],
    valid_for: Annotated[str, typer.Option(help='Such as "1h".')] = "1h",
    as_json: AsJson = False,
) -> None:
    """Make a token with which one node may join, once."""
    seconds = read(lambda: duration_us(valid_for)) // 10**6
    spec = read(lambda: JoinTokenSpec(node_name=name, valid_seconds=seconds))
    with connect() as client:
        made = client.create_join_token(spec)
    if as_json:
        print_json(made)
        return
    note(f"for {made.node_name}, once, until {moment_text(made.expires_at)}:")
    print_line(made.token)


@app.command("revoke")
def revoke_node(node: NodeRef, as_json: AsJson = False) -> None:
    """End a node's credential, at once; it has to join anew."""
    with connect() as client:
        _print_state(client.revoke_node(node_id(client, node)), as_json)


@app.command("join-tokens")
def list_join_tokens(as_json: AsJson = False) -> None:
    """List the tokens with which nodes could or can join."""
    with connect() as client:
        found = list(client.join_tokens())
    if as_json:
        print_json(found)
        return
    print_table(
        ("TOKEN", "NODE", "STATE", "EXPIRES", "USED"),
        [(t.id, t.node_name, t.state, moment_text(t.expires_at), moment_text(t.used_at)) for t in found],
    )


@app.command("revoke-join-token")
def revoke_join_token(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="The token's id.")], as_json: AsJson = False
) -> None:
    """Let no node join with a token any more."""
    with connect() as client:
        client.revoke_join_token(token)
    if as_json:
        print_json({"id": token, "state": "revoked"})
    else:
        print_line(f"{token} revoked")


def _gpus_text(node: NodeView) -> str:
    kinds = [
        " ".join((gpu.model, *filter(None, [f"({simulated(True)})" if gpu.is_simulated else ""]))) for gpu in node.gpus
    ]
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in dict.fromkeys(kinds)) or "none"


def _cpus_text(milli: int) -> str:
    """Thousandths of a CPU as a decimal without trailing zeros."""
    return f"{milli // 1000}.{milli % 1000:03d}".rstrip("0").rstrip(".")


def _used_memory_text(node: NodeView) -> str:
    return f"{rough_size_text(node.memory_bytes_used)} of {rough_size_text(node.memory_bytes)}"


def _print_state(view: NodeView, as_json: bool) -> None:
    if as_json:
        print_json(view)
    else:
        print_line(f"{view.id} {view.name} {view.state}")
