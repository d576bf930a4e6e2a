"""Staying with a job: the reason while it waits, its bytes while it runs."""

import httpx2
from corral.cli.attend import attend


def test_reasons_beside_and_bytes_as_they_are(a_client, a_job, a_stream, an_event, capsys):
    stream = a_stream([
        an_event("reason", code="no_device", text="no free [H100]\x1b[2J", numbers={}),
        an_event("state", state="queued"),
        an_event("reason", code="no_device", text="one job before it", numbers={}), an_event("state", state="running"),
        an_event("log", b"\x00\xff\x1b[1m", until=6),
        an_event("state", state="queued"), an_event("state", state="running"),
        an_event("log", b"again", attempt=2, until=5), an_event("end", state="failed", exit_code=3),
    ])  # fmt: skip
    client, script = a_client(stream, httpx2.Response(200, json=a_job(state="failed", outcome="exited", exit_code=3)))
    written: list[bytes] = []
    assert attend(client, "job_x", written.append).exit_code == 3
    assert written == [b"\x00\xff\x1b[1m", b"again"]
    assert capsys.readouterr().err.splitlines() == [
        "waiting: no free [H100]\\x1b[2J", "waiting: one job before it", "queued"
    ]  # fmt: skip
    assert script.naps == []
