"""The few calls that are made to the container engine, and what its complaints mean here."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Final, TypeVar

import docker
import requests
from docker.errors import APIError, ImageNotFound, NotFound

from sandbox.contract import EngineAway, ImageMissing, SandboxFault

API_VERSION: Final = (1, 41)
"""Docker 20.10's; a later one only where the engine no longer speaks this, for a newer one may mean other things."""
ANSWER_WITHIN_S: Final = 60
PULL_SILENCE_S: Final = 600
"""A layer of many gigabytes is unpacked without a word."""
DEFAULT_SOCKET: Final = "/var/run/docker.sock"

T = TypeVar("T")


class NameTaken(SandboxFault):
    """A container of that name is there already."""


class NoSuchContainer(SandboxFault):
    """The engine knows no such container."""


class EngineClient:
    """The engine behind one unix socket. Safe to share: each call borrows a connection of its own."""

    def __init__(self, socket_path: str = DEFAULT_SOCKET) -> None:
        self.socket_path = socket_path
        self._idle: list[docker.APIClient] = []
        self._lock = threading.Lock()
        self._spoken: str | None = None

    def version(self) -> dict[str, Any]:
        return self._call(lambda api: api.version(api_version=False))

    def info(self) -> dict[str, Any]:
        return self._call(lambda api: api.info())

    def image(self, reference: str) -> dict[str, Any]:
        """The inspect of an image that is on this node.

        Raises:
            ImageMissing: it is not here.
        """
        try:
            return self._call(lambda api: api.inspect_image(reference))  # type: ignore[no-untyped-call]
        except ImageNotFound as error:
            raise ImageMissing(
                "the image is not on this node: have it built here, or name one of a registry"
            ) from error

    def find_image(self, name: str) -> str | None:
        """The id of a named image on this node; None if there is none."""
        try:
            return str(self.image(name)["Id"])
        except ImageMissing:
            return None

    def pull(self, reference: str, heard: Callable[[Mapping[str, Any]], None] = lambda _: None) -> None:
        """Bring an image that is pinned by its digest from its registry; the engine checks what comes against that.

        `heard` is given each line of its account.

        Raises:
            ImageMissing: the registry does not have it, does not answer, or sends something else.
        """
        with closing(self._client(self._version(), PULL_SILENCE_S)) as api:
            try:
                for line in api.pull(reference, stream=True, decode=True):
                    if "error" in line:
                        raise ImageMissing(f"the image cannot be pulled: {line['error']}")
                    heard(line)
            except (requests.ConnectionError, requests.Timeout) as error:
                raise EngineAway(f"the container engine at {self.socket_path} broke off a pull") from error
            except APIError as error:
                raise ImageMissing(f"the image cannot be pulled: {_words(error)}") from error

    def import_image(self, archive: bytes, name: str, changes: tuple[str, ...] = ()) -> str:
        """Make an image of one layer from a tar of files; its id. `changes` are lines of a Dockerfile."""
        repository, _, tag = name.partition(":")
        self._call(lambda api: api.import_image_from_data(archive, repository, tag or None, changes=list(changes)))
        return str(self.image(name)["Id"])

    def remove_image(self, reference: str) -> bool:
        """Forget a name of an image, and the image with its last name. False if a container holds it, and it stays."""
        try:
            self._call(lambda api: api.remove_image(reference))
        except NotFound:
            return True
        except APIError as error:
            if error.status_code == 409:
                return False
            raise
        return True

    def create(self, body: Mapping[str, Any], name: str) -> str:
        """Make a container, not started; its id.

        Raises:
            NameTaken: there is one of that name.
            ImageMissing: its image went away.
        """
        try:
            made = self._call(lambda api: api.create_container_from_config(body, name))  # type: ignore[no-untyped-call]
            return str(made["Id"])
        except APIError as error:
            if error.status_code == 409:
                raise NameTaken(name) from error
            raise ImageMissing("the image is no longer on this node") from error

    def start(self, container: str) -> None:
        """Start it; one that runs, runs on.

        Raises:
            SandboxFault: it cannot be started.
        """
        try:
            self._call(lambda api: api.start(container))
        except NotFound as error:
            raise NoSuchContainer(container) from error

    def inspect(self, container: str) -> dict[str, Any]:
        try:
            return self._call(lambda api: api.inspect_container(container))
        except NotFound as error:
            raise NoSuchContainer(container) from error

    def remove(self, container: str) -> None:
        """Kill it and forget it, its anonymous volumes too. None there: nothing done."""
        try:
            self._call(lambda api: api.remove_container(container, force=True, v=True))
        except APIError as error:
            if error.status_code not in (404, 409):  # gone, or being removed
                raise

    def containers(self, labels: Mapping[str, str]) -> list[dict[str, Any]]:
        """All containers that carry these labels, running or not."""
        wanted = [f"{name}={value}" for name, value in labels.items()]
        return self._call(lambda api: api.containers(all=True, filters={"label": wanted}))

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            clients, self._idle = self._idle, []
        for client in clients:
            client.close()

    def _call(self, ask: Callable[[docker.APIClient], T]) -> T:
        try:
            with self._borrowed() as api:
                return ask(api)
        except (requests.ConnectionError, requests.Timeout) as error:
            self.close()  # what is idle is as dead
            raise EngineAway(f"the container engine at {self.socket_path} does not answer") from error
        except APIError as error:
            if error.status_code in (502, 503, 504):
                raise EngineAway(f"the container engine is not ready: {_words(error)}") from error
            if error.status_code in (404, 409):
                raise  # each call knows what these mean for it
            raise SandboxFault(f"the container engine refused: {_words(error)}") from error

    @contextmanager
    def _borrowed(self) -> Iterator[docker.APIClient]:
        with self._lock:
            api = self._idle.pop() if self._idle else None
        api = api or self._connected()
        try:
            yield api
        finally:
            with self._lock:
                self._idle.append(api)

    def _connected(self) -> docker.APIClient:
        return self._client(self._version())

    def _version(self) -> str:
        """The version of the engine's API to be spoken, asked for once."""
        self._knock()
        if self._spoken is None:
            with closing(self._client(_dotted(API_VERSION))) as api:
                least = str(api.version(api_version=False).get("MinAPIVersion", "1.12"))
            self._spoken = _dotted(max(API_VERSION, tuple(map(int, least.split(".")))))
        return self._spoken

    def _knock(self) -> None:
        """Ask ourselves first whether anybody listens: the library leaves a socket open when nobody does."""
        with socket.socket(socket.AF_UNIX) as knock:
            knock.settimeout(ANSWER_WITHIN_S)
            try:
                knock.connect(self.socket_path)
            except OSError as error:
                raise EngineAway(
                    f"the container engine at {self.socket_path} cannot be reached: {error.strerror or error}"
                ) from error

    def _client(self, version: str, timeout_s: int = ANSWER_WITHIN_S) -> docker.APIClient:
        return docker.APIClient(base_url=f"unix://{self.socket_path}", version=version, timeout=timeout_s)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _words(error: APIError) -> str:
    """The engine's own complaint, without the address of the call."""
    return str(error.explanation or error)
