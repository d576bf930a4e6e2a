"""Names in Redis: each node's apart from every other's, whatever the ids."""

import base64
import json
import pickle

import pytest

from domain.ids import JobId, NodeId
from hints import names
from hints.access import node_rules
from hints.guard import LARGEST_BYTES, is_hint
from hints.link import REST_SECONDS, Link
from hints.urls import for_kombu, for_redis_py

BODY = base64.b64encode(
    json.dumps([["att_1", 3], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]).encode()
).decode()
QUEUE = names.node_queue(NodeId("nod_1"))


def a_message(**changes: object) -> dict[str, object]:
    return {
        "body": BODY,
        "content-encoding": "utf-8",
        "content-type": "application/json",
        "headers": {
            "lang": "py",
            "task": "worker.launch",
            "id": "1",
            "root_id": "1",
            "retries": 0,
            "timelimit": [None, None],
            "eta": None,
            "expires": None,
            "group": None,
            "stamped_headers": None,
        },
        "properties": {
            "correlation_id": "1",
            "delivery_info": {"exchange": "", "routing_key": QUEUE},
            "body_encoding": "base64",
            "delivery_tag": "tag",
        },
    } | changes


def with_header(**changes: object) -> dict[str, object]:
    headers = a_message()["headers"]
    assert isinstance(headers, dict)
    return a_message(headers=headers | changes)


def all_keys(node_id: NodeId) -> list[str]:
    return [names.node_queue(node_id), *names.node_unacked_keys(node_id).values()]


def test_a_nodes_names_all_begin_with_its_prefix_and_are_its_own() -> None:
    keys = all_keys(NodeId("nod_1"))
    assert all(key.startswith(names.node_prefix(NodeId("nod_1"))) for key in keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(("one", "other"), [("nod_1", "nod_10"), ("n", "n1"), ("n1", "n")])
def test_no_nodes_pattern_opens_anothers_keys(one: str, other: str) -> None:
    pattern = next(rule for rule in node_rules(NodeId(one)) if rule.startswith("~")).removeprefix("~").removesuffix("*")
    assert pattern.endswith(".")
    assert not any(key.startswith(pattern) for key in all_keys(NodeId(other)))


def test_channels_and_keys_of_the_control_plane_are_no_nodes() -> None:
    for name in (names.WAKE_KEY, names.UNROUTED_QUEUE, names.job_channel(JobId("job_1"))):
        assert not name.startswith("corral.node.")


def test_no_node_may_run_scripts_of_its_own_or_administer() -> None:
    granted = {rule for rule in node_rules(NodeId("nod_1")) if rule.startswith("+")}
    assert not granted & {"+@all", "+@scripting", "+eval", "+script", "+keys", "+flushall", "+config", "+publish"}


@pytest.mark.parametrize(
    ("url", "redis_py", "kombu"),
    [
        ("unix:///run/r.sock", "unix:///run/r.sock", "redis+socket:///run/r.sock"),
        ("redis+socket:///run/r.sock", "unix:///run/r.sock", "redis+socket:///run/r.sock"),
        ("redis://h:1/0", "redis://h:1/0", "redis://h:1/0"),
        ("rediss://u:p@h:1/0", "rediss://u:p@h:1/0", "rediss://u:p@h:1/0"),
    ],
)
def test_one_url_serves_both_libraries(url: str, redis_py: str, kombu: str) -> None:
    assert (for_redis_py(url), for_kombu(url)) == (redis_py, kombu)


def test_a_hint_is_let_in() -> None:
    assert is_hint(json.dumps(a_message()).encode(), QUEUE)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"{}",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"x" * (LARGEST_BYTES + 1),
        pickle.dumps({"task": "worker.launch"}),
    ],
)
def test_what_is_no_message_is_not(raw: bytes) -> None:
    assert not is_hint(raw, QUEUE)


@pytest.mark.parametrize(
    "message",
    [
        with_header(task="celery.chord"),
        with_header(eta="2999-01-01T00:00:00Z"),
        with_header(expires="2999-01-01T00:00:00Z"),
        with_header(timelimit=[1, 1]),
        with_header(retries=3),
        with_header(id=7),
        a_message(**{"content-type": "application/x-python-serialize"}),
        a_message(**{"content-encoding": "binary"}),
        a_message(body="!"),
        a_message(body="e30="),
        a_message(body=[1]),
        a_message(properties={}),
    ],
)
def test_what_asks_for_more_than_a_hint_is_not(message: dict[str, object]) -> None:
    assert not is_hint(json.dumps(message).encode(), QUEUE)


def test_a_hint_that_would_return_to_another_queue_is_not() -> None:
    assert not is_hint(json.dumps(a_message()).encode(), names.node_queue(NodeId("nod_2")))


def test_after_a_failure_nothing_is_tried_for_a_moment_and_then_again() -> None:
    now, calls = [0.0], []

    def fail() -> None:
        calls.append(now[0])
        raise ConnectionError

    link = Link(lambda: now[0])
    assert not link.attempt(fail)
    assert not link.attempt(fail)
    assert calls == [0.0]
    now[0] += REST_SECONDS
    assert link.attempt(lambda: calls.append(now[0]))
    assert calls == [0.0, REST_SECONDS]


def test_what_is_no_outage_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        Link().attempt(lambda: 1 / 0)
