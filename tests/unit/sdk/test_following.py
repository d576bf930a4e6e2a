"""A log is followed over broken connections: every byte once."""

import httpx2
import pytest
from corral import ApiError, Job, JobView, Unreachable
from corral.following import JobEnd, LogChunk, StateChange
from corral.jobs import WaitReason


def text_of(events):
    return b"".join(event.data for event in events if isinstance(event, LogChunk))


def test_everything_the_stream_says(a_client, a_stream, an_event):
    client, script = a_client(
        a_stream([
            ": keep-alive\n\n", an_event("reason", code="no_device", text="no free GPU", numbers={"free": 0}),
            an_event("state", state="running"), an_event("log", b"\x00\xffhi\n", until=5), an_event("news"),
            an_event("end", state="failed", exit_code=3),
        ])
    )  # fmt: skip
    assert list(client.follow("job_x")) == [
        WaitReason(code="no_device", text="no free GPU", numbers={"free": 0}),
        StateChange("running"),
        LogChunk(1, 0, b"\x00\xffhi\n"),
        JobEnd("failed", 3),
    ]
    assert script.headers("Accept") == ["text/event-stream"]


def test_it_comes_back_to_where_it_was(a_client, a_stream, a_problem, an_event):
    client, script = a_client(
        httpx2.ConnectError("refused"),
        a_stream([an_event("log", b"one ", until=4)]),
        a_problem(503, "starting", {"Retry-After": "3"}),
        a_stream([an_event("log", b"ne two ", until=8), an_event("log", b"three", attempt=2, until=5)]),
        a_stream([an_event("end", state="succeeded", exit_code=0)]),
    )
    assert text_of(client.follow("job_x")) == b"one two three"
    assert script.headers("Last-Event-ID") == [None, None, "1:4", "1:4", "2:5"]
    assert script.naps[2] == 3.0


def test_what_was_handed_on_is_not_handed_on_again(a_client, a_stream, an_event):
    client, _ = a_client(
        a_stream([
            an_event("log", b"one", until=3), an_event("log", b"one", until=3), an_event("log", b"two", 2, 3),
            an_event("log", b"old", until=6), an_event("end", state="succeeded", exit_code=0),
        ])
    )  # fmt: skip
    assert text_of(client.follow("job_x")) == b"onetwo"


def test_a_refusal_ends_it(a_client, a_problem):
    client, script = a_client(a_problem(404, "not_found"))
    with pytest.raises(ApiError, match="not_found"):
        list(client.follow("job_x"))
    assert script.naps == []


def test_it_gives_up_when_its_patience_ends(a_client):
    client, script = a_client(*[httpx2.ConnectError("refused")] * 1000)
    with pytest.raises(Unreachable, match="refused"):
        list(client.follow("job_x"))
    assert sum(script.naps) <= 300


def test_streams_that_say_nothing_end_too(a_client, a_stream):
    client, _ = a_client(*[a_stream([]) for _ in range(1000)])
    with pytest.raises(Unreachable, match="ended early"):
        list(client.follow("job_x"))


def test_a_sign_of_life_renews_its_patience(a_client, a_stream, an_event):
    answers = [a_stream([an_event("log", b"x", until=n)]) for n in range(1, 3000)]
    client, script = a_client(*answers, a_stream([an_event("end", state="succeeded", exit_code=0)]))
    assert len(text_of(client.follow("job_x"))) == 2999
    assert sum(script.naps) > 300 > 10 * max(script.naps)


@pytest.mark.parametrize(
    "event",
    [
        'event: log\nid: x\ndata: {"data": ""}\n\n', 'event: log\nid: 1:3\ndata: {"data": "%%%"}\n\n',
        "event: log\nid: 1:3\ndata: {}\n\n", "event: end\ndata: []\n\n", "event: reason\ndata: {\n\n",
    ],
)  # fmt: skip
def test_an_event_that_is_not_understood_says_so(event, a_client, a_stream):
    client, _ = a_client(a_stream([event]))
    with pytest.raises(ApiError, match="unreadable"):
        list(client.follow("job_x"))


def test_lines_are_cut_where_the_job_cut_them(a_client, a_job, a_stream, an_event):
    stream = [an_event("log", b"a\nb", until=3), an_event("log", b"c\r\n\xff\nlast", until=12)]
    client, _ = a_client(a_stream([*stream, an_event("end", state="succeeded", exit_code=0)]))
    job = Job(client, JobView.model_validate(a_job()))
    assert list(job.log_lines(follow=True)) == ["a", "bc\r", "\ufffd", "last"]
