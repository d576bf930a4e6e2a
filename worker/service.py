"""The worker as a process: one agent for a data folder, its Celery process beside it, ended by SIGTERM or SIGINT."""

import fcntl
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from corral.node import Registration

from domain.ids import NodeId
from domain.levels import Level
from sandbox.bubblewrap import BubblewrapSandbox
from sandbox.contract import Sandbox
from sandbox.engine import DockerSandbox
from sandbox.image_store import DAY_US, KeepRule
from worker import credential as credentials
from worker.agent import Agent
from worker.api_link import ApiFault, ApiLink, Away
from worker.contact import BackOff, Leaving
from worker.credential import Credential
from worker.device_watch import DeviceWatch
from worker.devices import Inventory
from worker.facts import node_facts
from worker.gpu_probe import GpuProbe
from worker.hint_access import HintAccess
from worker.hint_keeper import HintKeeper, HintSettings
from worker.image_keeper import Keeping
from worker.settings import WorkerSettings
from worker.signatures import Signatures
from worker.simulated import chosen_inventory, simulated_inventory

log = logging.getLogger(__name__)


class CannotServe(Exception):
    """The worker cannot begin; the message says what would help."""


def run(settings: WorkerSettings) -> None:
    """Serve until told to end.

    Raises:
        CannotServe: another worker has the folder, or the API does not let this node join.
    """
    leaving = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _setter(leaving))
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _only_one(settings):
        credential = credentials.load(settings.data_dir) or join(settings, leaving)
        if credential is not None:
            _serve(settings, credential, leaving)


def join(settings: WorkerSettings, leaving: threading.Event) -> Credential | None:
    """Trade the join token for the node's own credential; None if told to end before the API answered.

    Raises:
        CannotServe: there is no token, or it is not taken.
    """
    if settings.join_token is None:
        raise CannotServe("this node has not joined yet: set CORRAL_JOIN_TOKEN to a token that an admin made for it")
    api = api_link(settings, settings.join_token.get_secret_value())
    body = Registration(facts=node_facts(settings, Inventory(), [], []))  # what it offers is told once it has a name
    back_off = BackOff(leaving)
    try:
        while True:
            try:
                answer = api.register(body)
                break
            except Away as fault:
                if fault.status in (401, 403):
                    raise CannotServe("the join token is not valid (any more): an admin can make another") from fault
                log.warning("the API is away, and this node cannot join yet: %s", fault)
                back_off.pause()
    except ApiFault as fault:
        raise CannotServe(f"the API does not let this node join: {fault}") from fault
    except Leaving:
        return None
    finally:
        api.close()
    if answer.token is None:
        raise CannotServe("the API took the join token and gave no credential")
    credential = Credential(NodeId(answer.node_id), answer.node_name, answer.token)
    credentials.save(settings.data_dir, credential)
    return credential


def api_link(settings: WorkerSettings, token: str) -> ApiLink:
    """The way to the API, with this token.

    Raises:
        CannotServe: the file of the certificate authority is not fit for use.
    """
    parts = urlsplit(settings.api_url)
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        log.warning("%s is not encrypted: whoever hears the network learns this node's token", settings.api_url)
    try:
        return ApiLink(settings.api_url, token, settings.api_ca_file)
    except OSError as error:
        raise CannotServe(f"CORRAL_API_CA_FILE {settings.api_ca_file} cannot be used: {error}") from error


def is_loopback(host: str) -> bool:
    """Whether the host is this machine, by its name or its address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def sandboxes(settings: WorkerSettings, node_id: NodeId) -> dict[Level, Sandbox]:
    """A backend for each level that the settings allow and that there is one for."""
    makers: dict[Level, Callable[[Path], Sandbox]] = {
        Level.PROCESS: lambda root: BubblewrapSandbox(root, node_id),
        Level.CONTAINER: lambda root: DockerSandbox(root, node_id, str(settings.engine_socket)),
    }
    found: dict[Level, Sandbox] = {}
    for level in settings.levels:
        root = settings.data_dir / level.value
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if level in makers:
            found[level] = makers[level](root)
    return found


def keeping(settings: WorkerSettings, boxes: Mapping[Level, Sandbox]) -> Keeping | None:
    """How the node keeps images; None where no level runs any."""
    store = next((box.images for box in boxes.values() if isinstance(box, DockerSandbox)), None)
    if store is None:
        return None
    signatures = Signatures(settings.cosign, settings.cosign_seconds, settings.docker_config_dir)
    rule = KeepRule(settings.image_unused_days * DAY_US, settings.image_disk_percent)
    return Keeping(store, signatures, rule)


def device_watch(settings: WorkerSettings, node_name: str) -> DeviceWatch:
    """The node's GPUs; where it has none, as many simulated ones as the settings say."""
    probe = GpuProbe(settings.nvml_dir)
    simulated = simulated_inventory(settings.simulated_gpus, node_name)
    if simulated.devices and not probe.read().devices:
        return DeviceWatch(lambda: simulated, settings.data_dir)
    return DeviceWatch(lambda: chosen_inventory(probe.read(), simulated), settings.data_dir)


def _serve(settings: WorkerSettings, credential: Credential, leaving: threading.Event) -> None:
    api = api_link(settings, credential.token)
    boxes = sandboxes(settings, credential.node_id)
    access = HintAccess.of(settings.redis_url, credential.node_id) if settings.redis_url else None
    password_sha256 = access.password_sha256 if access else None
    watch = device_watch(settings, credential.node_name)
    agent = Agent(settings, credential, api, boxes, watch, password_sha256, keeping(settings, boxes))
    agent.start()
    hints = _hints(settings, credential, access)
    try:
        leaving.wait()
    finally:
        log.info("leaving; what runs, runs on")
        if hints is not None:
            hints.close()
        agent.close()
        api.close()


def _hints(settings: WorkerSettings, credential: Credential, access: HintAccess | None) -> HintKeeper | None:
    if access is None:
        return None
    keeper = HintKeeper(HintSettings(access.redis_url, credential.node_id, settings.poke_socket))
    keeper.start()
    return keeper


@contextmanager
def _only_one(settings: WorkerSettings) -> Iterator[None]:
    """Hold the data folder; the kernel lets go of it with the process, however that ends."""
    fd = os.open(settings.data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise CannotServe(f"another worker already serves with {settings.data_dir}") from None
    finally:
        os.close(fd)


def _setter(leaving: threading.Event) -> Callable[[int, FrameType | None], None]:
    def leave(number: int, frame: FrameType | None) -> None:
        leaving.set()

    return leave
