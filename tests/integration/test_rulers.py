"""Somebody can always rule the platform, also when two of the last are ended at the same moment."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import Engine
from sqlmodel import Session, select

from domain.errors import Conflict
from domain.ids import KeyId, MemberId
from domain.rights import Rights
from domain.roles import Role
from store.engine import writing
from store.ids import new_id
from store.key_rows import revoke_key
from store.keys import is_valid, mint, mint_key
from store.members import remove
from store.tables import Member

ROUNDS = 5


def a_ruling_member(session: Session) -> Member:
    """An admin who has logged in."""
    member = Member(
        id=new_id("mem"), role=Role.PLATFORM_ADMIN.value, name="Ada", issuer="https://a", subject=new_id("mem"),
        state="active", created_us=0,
    )  # fmt: skip
    session.add(member)
    session.flush()
    return member


def test_of_two_that_go_at_once_one_stays(engine: Engine) -> None:
    with writing(engine) as session:
        stays = mint_key(session, None, "stays")[0].id
    for _ in range(ROUNDS):
        with writing(engine) as session:
            other = mint_key(session, None, "other")[0].id
        begin = Barrier(2)

        def end(key_id: str, begin: Barrier = begin) -> bool:
            begin.wait(10)
            try:
                with writing(engine) as session:
                    revoke_key(session, None, key_id)
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as both:
            ended = list(both.map(end, (stays, other)))
        assert sorted(ended) == [False, True]
        stays = other if ended[0] else stays


def test_a_member_who_has_logged_in_rules_too_and_is_not_the_last_to_go(engine: Engine) -> None:
    with writing(engine) as session:
        key = mint_key(session, None, "first")[0].id
        member = a_ruling_member(session).id
        revoke_key(session, None, key)
    with pytest.raises(Conflict), writing(engine) as session:
        remove(session, None, member)
    with writing(engine) as session:
        mint_key(session, None, "second")
        remove(session, None, member)


def test_neither_a_bounded_key_nor_a_persons_own_counts_as_a_ruler(engine: Engine) -> None:
    with writing(engine) as session:
        first = mint_key(session, None, "first")[0].id
        mint(session, "bounded", Rights(Role.PLATFORM_ADMIN, None, frozenset({"jobs:read"})))
        mint(session, "child", Rights(Role.PLATFORM_ADMIN, None), parent_key_id=KeyId(first))
    with pytest.raises(Conflict), writing(engine) as session:
        revoke_key(session, None, first)


def test_a_removed_members_keys_are_ended_in_the_same_moment(engine: Engine) -> None:
    with writing(engine) as session:
        mint_key(session, None, "first")
        member = a_ruling_member(session).id
        key, _ = mint(session, "login", Rights(Role.PLATFORM_ADMIN, None), MemberId(member))
        key_id = KeyId(key.id)
        assert is_valid(session, key_id)
        remove(session, None, member)
        assert not is_valid(session, key_id)
        assert session.exec(select(Member.state).where(Member.id == member)).one() == "removed"
