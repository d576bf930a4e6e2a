"""An image that is pinned by a registry's digest is brought to the node, from a real registry on this machine."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker as engine_library
import engines
import pytest
import services
from redis_parts import eventually

from domain.ids import NodeId
from sandbox.contract import ImageMissing
from sandbox.engine import DockerSandbox
from sandbox.engine_facts import static_busybox
from sandbox.local_image import busybox_layer

NODE = NodeId(f"nod_pull_{os.getpid()}")
CONFIG = """
version: 0.1
storage:
  filesystem: {{rootdirectory: {root}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a registry; the engine trusts the loopback address without TLS."""
    program = services.need_program("docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = tmp_path / "registry.yml"
    config.write_text(CONFIG.format(root=tmp_path / "registry", port=port))
    output = (tmp_path / "registry.log").open("wb")
    process = subprocess.Popen([program, "serve", config], stdout=output, stderr=output, env={"PATH": os.defpath})
    eventually(lambda: _answers(port))
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()
    output.close()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DockerSandbox]:
    engines.need_engine()
    opened = DockerSandbox(tmp_path / "box", NODE)
    yield opened
    opened.close()


@pytest.fixture
def pushed(registry: str, box: DockerSandbox) -> str:
    """The pinned reference of an image that the registry has and the engine has not."""
    name = f"{registry}/corral/pulled"
    layer = busybox_layer(static_busybox(), {"etc/of": registry.encode()})  # an image of this test's own
    image_id = box.engine.import_image(layer, f"corral-test/pull:{registry.rpartition(':')[2]}")
    with closing(engine_library.APIClient()) as api:
        api.tag(image_id, name, "pushed")
        lines = list(api.push(name, "pushed", stream=True, decode=True))
        digest = next(line["aux"]["Digest"] for line in lines if "Digest" in line.get("aux", {}))
        api.remove_image(image_id, force=True)
    return f"{name}@{digest}"


def test_it_is_pulled_by_its_digest_and_runs(box: DockerSandbox, pushed: str, tmp_path: Path) -> None:
    order = engines.an_order(tmp_path, pushed, "echo", "pulled", node_id=NODE)
    sandbox_id = box.create(order)
    try:
        box.verify(sandbox_id, order)
        box.start(sandbox_id, order)
        end = box.wait(sandbox_id, order, 30)
        assert end is not None
        assert end.exit_code == 0
    finally:
        box.remove(sandbox_id, order)
        box.engine.remove_image(pushed)


def test_a_digest_that_the_registry_does_not_have_is_said_to_be_missing(
    box: DockerSandbox, pushed: str, tmp_path: Path
) -> None:
    other = pushed.rpartition("@")[0] + "@sha256:" + "0" * 64
    with pytest.raises(ImageMissing, match="cannot be pulled"):
        box.create(engines.an_order(tmp_path, other, "true", node_id=NODE))


def _answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0
