"""Docker with runc: the conformance suite, and no container, mount, loop device or control group left by any of it."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import engines
import pytest

from domain.ids import NodeId
from sandbox.contract import LaunchOrder
from sandbox.engine import DockerSandbox
from tests.integration.sandbox.conformance import SandboxConformance
from tests.integration.sandbox.lives import MIB, OrderMaker

NODE = NodeId(f"nod_test_docker_{os.getpid()}")


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """An image with a shell and a Python, made on the spot."""
    engines.need_engine()
    made = engines.an_image({}, layer=engines.python_layer())
    yield made
    engines.forget_image(made)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[DockerSandbox]:
    """A backend that must leave nothing behind."""
    root = tmp_path / "root"
    backend = DockerSandbox(root, NODE, engines.need_engine())
    yield backend
    backend.close()
    assert engines.leftovers(root, NODE, frozenset()) == engines.NOTHING
    engines.until_no_runner(tmp_path)


@pytest.fixture
def order(tmp_path: Path, image: str) -> OrderMaker:
    """Orders for a container, each with a state folder of its own."""

    def make(*command: str, **changes: Any) -> LaunchOrder:
        return engines.an_order(
            tmp_path, image, *command, **({"node_id": NODE, "memory_bytes": 256 * MIB, "shm_bytes": 16 * MIB} | changes)
        )

    return make


class TestDocker(SandboxConformance):
    python = (f"{sys.base_prefix}/bin/python3",)
    harmless = frozenset(
        {
            # The engine's init is the job's own user, inside the same walls, and knows nothing that the job does not.
            b"cat /proc/1/environ",
            b"ls /proc/1/root/",
            b"opened /proc/1/mem",
            # An engine without CAP_SYS_RESOURCE cannot set the floor; it decides only who goes first without memory.
            b"echo 0 >/proc/self/oom_score_adj",
            # The static wget's way to look up names, in an image without the C library's files.
            b"Segmentation fault",
        }
    )
