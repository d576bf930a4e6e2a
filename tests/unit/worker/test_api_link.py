"""What the node makes of an answer: whether it says something of the job, or nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from domain.ids import AttemptId, Fence
from worker.api_link import ApiFault, ApiLink, Away, LogGap, Refused, Stale, Unknown

ATTEMPT = AttemptId("att_" + "0" * 26)


class Saying(HTTPServer):
    """Answers everything with what it was told to say."""

    status = 200
    body = b"{}"


class Handler(BaseHTTPRequestHandler):
    server: Saying

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def saying() -> Iterator[Saying]:
    server = Saying(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def link(saying: Saying) -> Iterator[ApiLink]:
    opened = ApiLink(f"http://127.0.0.1:{saying.server_port}", "token")
    yield opened
    opened.close()


def a_problem(status: int, code: str) -> bytes:
    problem = {"type": "about:blank", "title": code, "status": status, "code": code, "detail": code}
    return json.dumps({**problem, "errors": [{"size_bytes": "12"}]}).encode()


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (500, b"oops", Away),
        (502, b"<html>", Away),
        (503, a_problem(503, "busy"), Away),
        (401, a_problem(401, "unauthenticated"), Away),
        (429, a_problem(429, "limit"), Away),
        (404, b"<html>not here", Away),
        (200, b"<html>", Away),
        (409, a_problem(409, "stale_fence"), Stale),
        (404, a_problem(404, "not_found"), Unknown),
        (409, a_problem(409, "log_gap"), LogGap),
        (422, a_problem(422, "invalid"), Refused),
    ],
)
def test_an_answer_is_told_by_what_it_says_of_the_job(
    saying: Saying, link: ApiLink, status: int, body: bytes, fault: type[ApiFault]
) -> None:
    saying.status, saying.body = status, body
    with pytest.raises(fault) as caught:
        link.append_log(ATTEMPT, Fence(1), 0, b"x")
    assert type(caught.value) is fault


def test_a_gap_tells_where_to_go_on(saying: Saying, link: ApiLink) -> None:
    saying.status, saying.body = 409, a_problem(409, "log_gap")
    with pytest.raises(LogGap) as caught:
        link.append_log(ATTEMPT, Fence(1), 50, b"x")
    assert caught.value.size_bytes == 12


def test_nobody_there_says_nothing_of_the_job() -> None:
    link = ApiLink("http://127.0.0.1:1", "token")
    with pytest.raises(Away):
        link.claim(ATTEMPT, Fence(1))
    link.close()
