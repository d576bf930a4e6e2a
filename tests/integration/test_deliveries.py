"""Deliveries reach those who may be reached, signed; they are tried again, and never connect to anybody else."""

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from builders import a_tenant
from corral.webhooks import verify
from redis_parts import eventually
from sqlalchemy import Engine
from sqlmodel import Session, select

from control.deliveries import Deliverer
from control.outbound import NO_PUBLIC_ADDRESS, NotReached, post
from domain.ids import TenantId
from domain.webhooks import ATTEMPTS_MAX, WebhookRules
from store import webhooks
from store.deliveries import forget_old
from store.engine import reading, writing
from store.events import record
from store.ids import new_id
from store.leader import Lease, ensure_lease, read_lease, take_lease
from store.master_keys import FileKeys, add_key
from store.sealing import envelope
from store.tables import Delivery, Event, Webhook
from store.webhooks import Secrets


class Receiver:
    """A server of this machine that keeps what it is sent."""

    def __init__(self, status: int = 200, headers: Sequence[tuple[str, str]] = (), wait: threading.Event | None = None):
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = status
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                if wait is not None:
                    wait.wait(20)
                self.send_response(receiver.status)
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Receiver":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def keys(tmp_path: Path) -> FileKeys:
    """A master key."""
    add_key(tmp_path / "keys")
    return FileKeys(tmp_path / "keys")


@pytest.fixture
def epoch(engine: Engine) -> int:
    """This process leads."""
    with writing(engine) as session:
        ensure_lease(session)
        lease = read_lease(session)
        assert isinstance(lease, Lease)
        taken = take_lease(session, "test", lease)
    assert taken is not None
    return taken


def rules(*ports: int) -> WebhookRules:
    return WebhookRules.of(",".join(map(str, ports)), "127.0.0.1/32", allow_http=True)


def a_webhook(session: Session, keys: FileKeys, tenant_id: str, port: int, *types: str) -> tuple[str, str]:
    """Its id and its secret."""
    id, secret = new_id("whk"), webhooks.new_secret()
    sealed = envelope(keys, webhooks.place_of(id)).seal(Secrets(secret).content(), 1)
    webhooks.create(session, TenantId(tenant_id), id, f"http://hook.test:{port}/x", None, types, sealed)
    return id, secret


def here(_host: str, _port: int) -> Sequence[str]:
    return ["127.0.0.1"]


@contextmanager
def deliverer(engine: Engine, epoch: int, keys: FileKeys, *ports: int) -> Iterator[Deliverer]:
    sender = Deliverer(engine, epoch, keys, rules(*ports), here, send_seconds=5)
    try:
        yield sender
    finally:
        sender.close()


def all_deliveries(engine: Engine) -> list[Delivery]:
    with reading(engine) as session:
        return list(session.exec(select(Delivery).order_by(Delivery.id)))


def test_an_event_is_delivered_signed_to_the_webhooks_that_ask_for_it(
    engine: Engine, epoch: int, keys: FileKeys
) -> None:
    with Receiver() as receiver, deliverer(engine, epoch, keys, receiver.port) as sender:
        with writing(engine) as session:
            lab, other = a_tenant(session, "lab"), a_tenant(session, "other")
            _, secret = a_webhook(session, keys, lab, receiver.port, "budget.warning")
            a_webhook(session, keys, lab, receiver.port, "job.failed")
            a_webhook(session, keys, other, receiver.port)
        with writing(engine) as session:
            record(session, "budget_warning", tenant_id=lab, text="half", data={"percent": 50})
            record(session, "node_joined", tenant_id=lab)
        sender.look()
        eventually(lambda: [each.state for each in all_deliveries(engine)] == ["delivered"])
        ((headers, body),) = receiver.got
        event = verify(headers, body, secret)
    assert (event["type"], event["tenant_id"], event["version"]) == ("budget.warning", lab, 1)
    assert event["data"] == {"percent": 50, "text": "half"}


def test_what_fails_is_tried_again_later_and_given_up_in_the_end(engine: Engine, epoch: int, keys: FileKeys) -> None:
    with Receiver(status=500) as receiver, deliverer(engine, epoch, keys, receiver.port) as sender:
        with writing(engine) as session:
            webhook_id, _ = a_webhook(session, keys, a_tenant(session), receiver.port)
            webhooks.send_test(session, None, webhook_id)
        for number in range(1, ATTEMPTS_MAX + 1):
            sender.look()
            eventually(lambda number=number: (d := all_deliveries(engine)[0]).attempts == number and d.status == 500)
            (delivery,) = all_deliveries(engine)
            if number < ATTEMPTS_MAX:
                eventually(lambda: all_deliveries(engine)[0].error == "it answered 500")
                sender.look()  # not before its time
                assert len(receiver.got) == number
                with writing(engine) as session:
                    row = session.get_one(Delivery, delivery.id)
                    row.next_attempt_us, row.status = 0, None
        eventually(lambda: all_deliveries(engine)[0].state == "failed")
        with reading(engine) as session:
            assert session.get_one(Webhook, webhook_id).failing_since_us is not None


def test_a_webhook_that_took_nothing_for_days_is_disabled(engine: Engine, epoch: int, keys: FileKeys) -> None:
    with Receiver(status=404) as receiver, deliverer(engine, epoch, keys, receiver.port) as sender:
        with writing(engine) as session:
            webhook_id, _ = a_webhook(session, keys, a_tenant(session), receiver.port)
            webhooks.send_test(session, None, webhook_id)
            session.get_one(Webhook, webhook_id).failing_since_us = 1
        sender.look()

        def state() -> str:
            with reading(engine) as session:
                return session.get_one(Webhook, webhook_id).state

        eventually(lambda: state() == "disabled")
        with reading(engine) as session:
            assert "webhook_disabled" in session.exec(select(Event.what)).all()
        with writing(engine) as session:
            webhooks.change(session, None, webhook_id, {"state": "active"})
        assert state() == "active"


def test_a_slow_receiver_delays_nobody_else(engine: Engine, epoch: int, keys: FileKeys) -> None:
    wait = threading.Event()
    with (
        Receiver(wait=wait) as slow,
        Receiver() as quick,
        deliverer(engine, epoch, keys, slow.port, quick.port) as sender,
    ):
        with writing(engine) as session:
            slow_id, _ = a_webhook(session, keys, a_tenant(session, "slow"), slow.port)
            quick_id, _ = a_webhook(session, keys, a_tenant(session, "quick"), quick.port)
            for _ in range(50):
                webhooks.send_test(session, None, slow_id)
            webhooks.send_test(session, None, quick_id)
        sender.look()
        eventually(lambda: len(quick.got) == 1)
        assert len(slow.got) <= 2
        wait.set()


def test_two_senders_at_once_send_it_once(engine: Engine, epoch: int, keys: FileKeys) -> None:
    with Receiver() as receiver, deliverer(engine, epoch, keys, receiver.port) as one, \
            deliverer(engine, epoch, keys, receiver.port) as two:  # fmt: skip
        with writing(engine) as session:
            webhook_id, _ = a_webhook(session, keys, a_tenant(session), receiver.port)
            for _ in range(20):
                webhooks.send_test(session, None, webhook_id)

        def work(sender: Deliverer) -> None:
            while any(each.state == "pending" for each in all_deliveries(engine)):
                sender.look()

        threads = [threading.Thread(target=work, args=(sender,)) for sender in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(receiver.got) == 20


def test_what_ended_long_ago_is_forgotten_and_what_waits_is_not(engine: Engine, keys: FileKeys) -> None:
    with writing(engine) as session:
        webhook_id, _ = a_webhook(session, keys, a_tenant(session), 443)
        old, waiting = (webhooks.send_test(session, None, webhook_id).id for _ in range(2))
        row = session.get_one(Delivery, old)
        row.state, row.ended_us = "delivered", 1
    with writing(engine) as session:
        forget_old(session)
    assert [each.id for each in all_deliveries(engine)] == [waiting]
    with writing(engine) as session:
        webhooks.delete(session, None, webhook_id)
    assert all_deliveries(engine) == []


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """A socket that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        yield listening


def assert_untouched(trap: socket.socket) -> None:
    with pytest.raises(TimeoutError):
        trap.accept()


@pytest.mark.parametrize(
    "found", [["127.0.0.1"], ["8.8.8.8", "127.0.0.1"], ["::ffff:127.0.0.1"], ["::1"], ["169.254.169.254"], []]
)
def test_a_name_that_leads_inside_is_never_connected_to(trap: socket.socket, found: list[str]) -> None:
    port = trap.getsockname()[1]
    rules = WebhookRules.of(str(port), "", allow_http=True)
    with pytest.raises(NotReached) as told:
        post(f"http://hook.test:{port}/", b"{}", {}, rules, 2, lambda _host, _port: found)
    assert str(told.value) == NO_PUBLIC_ADDRESS, "a name that the inside knows is told like one that nobody does"
    assert_untouched(trap)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "[::1]", "0"])
def test_neither_is_this_machine_in_any_notation(trap: socket.socket, host: str) -> None:
    port = trap.getsockname()[1]
    with pytest.raises(NotReached):
        post(f"http://{host}:{port}/", b"{}", {}, WebhookRules.of(str(port), "", allow_http=True), 2)
    assert_untouched(trap)


def test_a_name_that_changes_after_it_was_checked_is_not_looked_up_again(trap: socket.socket) -> None:
    with Receiver() as receiver:
        answers = iter([["127.0.0.2"], ["127.0.0.1"]])
        asked = []

        def rebinding(host: str, port: int) -> Sequence[str]:
            asked.append(host)
            return next(answers)

        rules = WebhookRules.of(str(receiver.port), "127.0.0.2/32", allow_http=True)
        with pytest.raises(NotReached):
            post(f"http://hook.test:{receiver.port}/", b"{}", {}, rules, 2, rebinding)
        assert asked == ["hook.test"]
        assert receiver.got == []


def test_a_redirect_is_not_followed(trap: socket.socket) -> None:
    inside = f"http://127.0.0.1:{trap.getsockname()[1]}/"
    with Receiver(status=307, headers=[("Location", inside)]) as receiver:
        status = post(f"http://hook.test:{receiver.port}/", b"{}", {}, rules(receiver.port), 5, here)
    assert status == 307
    assert_untouched(trap)


@pytest.mark.parametrize("kind", ["endless", "drip", "silent", "noise"])
def test_an_answer_without_end_is_cut_off(kind: str) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                try:
                    if kind == "endless":
                        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                    while kind != "silent" and not stop.is_set():
                        connection.sendall({"endless": b"a" * 65536, "drip": b"H", "noise": b"\xff" * 70_000}[kind])
                        stop.wait(0.01 if kind == "drip" else 0)
                    stop.wait(20)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        port = listening.getsockname()[1]
        try:
            if kind == "endless":
                assert post(f"http://hook.test:{port}/", b"{}", {}, rules(port), 1, here) == 200
            else:
                with pytest.raises(NotReached):
                    post(f"http://hook.test:{port}/", b"{}", {}, rules(port), 1, here)
        finally:
            stop.set()
            thread.join()


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with Receiver() as receiver, pytest.raises(NotReached):
        post(f"https://hook.test:{receiver.port}/", b"{}", {}, rules(receiver.port), 5, here)
    assert receiver.got == []
