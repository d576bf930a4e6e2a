"""Every node has a user of its own on Redis, which opens its own queue and nothing else."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import services
from builders import a_node
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError
from redis_parts import NodeListener, RedisServer, eventually
from sqlalchemy import Engine
from sqlmodel import select

from control.node_users import NodeUserKeeper
from domain.ids import AttemptId, Fence, NodeId
from hints.access import node_user
from hints.names import node_queue, node_unacked_keys
from hints.node_users import NodeUsers
from hints.sender import Hints
from store.engine import writing
from store.tables import Node
from worker.hint_access import HintAccess

ONE, TEN = NodeId("nod_1"), NodeId("nod_10")
NETWORK = "rediss://redis.example.org:6380/0"


@pytest.fixture
def users(redis_server: RedisServer) -> Iterator[NodeUsers]:
    opened = NodeUsers(redis_server.url)
    yield opened
    opened.close()


def enter(server: RedisServer, node_id: NodeId, password: str) -> Redis:
    return Redis.from_url(server.url, username=node_user(node_id), password=password)


def an_access(node_id: NodeId) -> tuple[str, str]:
    """A password as a worker makes it, and the hash that the API hears of."""
    access = HintAccess.of(NETWORK, node_id)
    password, digest = urlsplit(access.redis_url).password, access.password_sha256
    assert password
    assert digest
    return password, digest


def test_a_node_hears_with_the_password_of_which_the_hash_was_told_and_reaches_no_other_queue(
    users: NodeUsers, redis_server: RedisServer, listen: Callable[..., NodeListener]
) -> None:
    password, digest = an_access(ONE)
    users.keep({ONE: digest, TEN: an_access(TEN)[1]})
    hints = Hints(redis_server.url)
    user = node_user(ONE)
    node = listen(ONE, url=redis_server.url.replace("unix://", f"unix://{user}:{password}@"))
    hints.launch(ONE, AttemptId("att_1"), Fence(1))
    node.wait_for("launch", "att_1", 1)
    hints.close()
    own = enter(redis_server, ONE, password)
    theirs = [node_queue(TEN), *node_unacked_keys(TEN).values()]
    for key in theirs:
        for touch in (own.llen, own.get, own.delete, lambda key: own.lpush(key, b"x"), lambda key: own.brpop(key, 1)):
            with pytest.raises(NoPermissionError):
                touch(key)
    for forbidden in (own.acl_list, own.acl_users, own.flushall, lambda: own.config_get("*"), lambda: own.scan(0)):
        with pytest.raises(NoPermissionError):
            forbidden()
    own.close()


def test_a_password_of_an_earlier_start_and_another_nodes_open_nothing(
    users: NodeUsers, redis_server: RedisServer
) -> None:
    old, old_hash = an_access(ONE)
    other, other_hash = an_access(TEN)
    users.keep({ONE: old_hash, TEN: other_hash})
    users.keep({ONE: an_access(ONE)[1], TEN: other_hash})
    for password in (old, other, "", "0" * 64):
        with pytest.raises(AuthenticationError):
            enter(redis_server, ONE, password).ping()


def test_a_node_that_is_gone_is_let_in_no_more_and_other_users_stay(
    users: NodeUsers, redis_server: RedisServer
) -> None:
    redis_server.client.execute_command("ACL", "SETUSER", "monitoring", "on", "nopass", "+ping")
    password, digest = an_access(ONE)
    users.keep({ONE: digest})
    assert enter(redis_server, ONE, password).ping()
    users.keep({})
    with pytest.raises(AuthenticationError):
        enter(redis_server, ONE, password).ping()
    assert set(redis_server.client.acl_users()) == {"default", "monitoring"}


def test_a_redis_that_forgot_its_users_learns_them_again(users: NodeUsers, redis_server: RedisServer) -> None:
    password, digest = an_access(ONE)
    users.keep({ONE: digest})
    redis_server.kill()
    users.keep({ONE: digest})  # it is away: nothing happens, and nothing is raised
    redis_server.start()
    eventually(lambda: not users.keep({ONE: digest}) and node_user(ONE) in redis_server.client.acl_users())
    assert enter(redis_server, ONE, password).ping()


def test_a_server_that_knows_no_set_info_takes_the_rules(tmp_path: Path) -> None:
    """Debian 12's Redis 7.0."""
    socket = tmp_path / "redis.sock"
    program = services.need_program("redis-server")
    arguments = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path))
    with subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL) as server:
        eventually(socket.is_socket)
        users = NodeUsers(f"unix://{socket}")
        password, digest = an_access(ONE)
        users.keep({ONE: digest})
        own = Redis(unix_socket_path=str(socket), username=node_user(ONE), password=password)
        assert own.llen(node_queue(ONE)) == 0
        with pytest.raises(NoPermissionError):
            own.llen(node_queue(TEN))
        own.close()
        users.close()
        server.terminate()


def test_the_leader_lets_in_whom_the_database_knows_but_no_lost_node(
    engine: Engine, users: NodeUsers, redis_server: RedisServer
) -> None:
    with writing(engine) as session:
        for name, state in (("here", "ready"), ("drained", "draining"), ("lost", "lost"), ("silent", "ready")):
            node = session.get_one(Node, a_node(session, name=name))
            node.state = state
            node.hints_password_sha256 = None if name == "silent" else "a" * 64
        wanted = {node_user(NodeId(node.id)) for node in session.exec(select(Node)) if node.name in ("here", "drained")}
    NodeUserKeeper(engine, users).keep()
    assert set(redis_server.client.acl_users()) == {"default", *wanted}


def test_credentials_of_the_operator_and_a_socket_are_taken_as_they_are() -> None:
    for url in ("redis://user:secret@host/0", "redis://:secret@host/0", "unix:///run/valkey.sock"):
        access = HintAccess.of(url, ONE)
        assert (access.redis_url, access.password_sha256) == (url, None)
    assert HintAccess.of(NETWORK, ONE) != HintAccess.of(NETWORK, ONE)
    assert "password" not in repr(HintAccess.of(NETWORK, ONE)).replace("password_sha256", "")
