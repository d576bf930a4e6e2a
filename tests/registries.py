"""A real registry on this machine, and images that it has and the engine has not."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import docker as engine_library
import engines
import services
from redis_parts import eventually

from sandbox.engine_facts import static_busybox
from sandbox.local_image import busybox_layer

CONFIG = """
version: 0.1
storage:
  filesystem: {{rootdirectory: {root}}}
http: {{addr: "127.0.0.1:{port}"}}
"""


@contextmanager
def a_registry(folder: Path) -> Iterator[str]:
    """The address of a registry; the engine trusts the loopback address without TLS."""
    program = services.need_program("docker-registry")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = folder / "registry.yml"
    config.write_text(CONFIG.format(root=folder / "registry", port=port))
    output = (folder / "registry.log").open("wb")
    process = subprocess.Popen([program, "serve", config], stdout=output, stderr=output, env={"PATH": os.defpath})
    eventually(lambda: _answers(port))
    yield f"127.0.0.1:{port}"
    process.terminate()
    process.wait()
    output.close()


def pushed_image(registry: str, name: str, extra: dict[str, bytes] | None = None, **config: Any) -> str:
    """The pinned reference of an image of this test's own, which the engine has forgotten again."""
    repository = f"{registry}/corral/{name}"
    layer = busybox_layer(static_busybox(), {"etc/of": f"{registry} {name}".encode(), **(extra or {})})
    image_id = engines.an_image(config, layer=layer)
    with closing(engine_library.APIClient()) as api:
        api.tag(image_id, repository, "pushed")
        lines = list(api.push(repository, "pushed", stream=True, decode=True))
        digest = next(line["aux"]["Digest"] for line in lines if "Digest" in line.get("aux", {}))
        api.remove_image(image_id, force=True)
    return f"{repository}@{digest}"


def _answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0
