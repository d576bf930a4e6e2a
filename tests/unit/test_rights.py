"""No key gives more than the one that makes it, whatever is asked for."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import BeyondKey, BeyondOwnRights, Invalid
from domain.ids import TenantId
from domain.rights import AskedRights, Author, Rights, narrowed
from domain.roles import Role, lower

ACME = TenantId("ten_acme")
SCOPES = st.frozensets(st.sampled_from(["jobs:read", "jobs:write", "usage:read"]))
NAMES = st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple)
TIMES = st.integers(0, 9)
PLACED = [Role.VIEWER, Role.MEMBER, Role.TENANT_ADMIN]


def rights() -> st.SearchStrategy[Rights]:
    return st.builds(
        Rights,
        st.sampled_from(PLACED),
        st.just(ACME),
        st.none() | SCOPES,
        st.none() | NAMES,
        st.none() | NAMES,
        st.booleans(),
        st.none() | TIMES,
    )


def asked_rights() -> st.SearchStrategy[AskedRights]:
    return st.builds(
        AskedRights,
        st.none() | st.sampled_from(PLACED),
        st.none(),
        st.none() | SCOPES,
        st.none() | NAMES,
        st.none() | NAMES,
        st.booleans(),
        st.none() | TIMES,
    )


@given(rights(), asked_rights())
def test_what_is_made_is_within_its_makers_rights_and_as_asked(maker: Rights, asked: AskedRights) -> None:
    try:
        made = narrowed(maker, asked)
    except BeyondOwnRights:
        return
    assert maker.role.covers(made.role)
    for makers, own, wanted in (
        (maker.scopes, made.scopes, asked.scopes),
        (maker.images, made.images, asked.images),
        (maker.levels, made.levels, asked.levels),
    ):
        assert makers is None or (own is not None and set(own) <= set(makers))
        assert wanted is None or own == wanted
    assert made.own_jobs_only or not maker.own_jobs_only
    assert maker.expires_us is None or (made.expires_us is not None and made.expires_us <= maker.expires_us)


@pytest.mark.parametrize(("one", "other"), list(itertools.product(Role, Role)))
def test_roles_are_in_one_line(one: Role, other: Role) -> None:
    assert one.covers(other) or other.covers(one)
    assert lower(one, other) == lower(other, one)
    assert one.covers(lower(one, other))


def test_a_platform_admins_key_for_a_tenant_is_its_admins() -> None:
    ruler = Rights(Role.PLATFORM_ADMIN, None)
    assert narrowed(ruler, AskedRights(tenant_id=ACME)).role is Role.TENANT_ADMIN
    for asked in (AskedRights(Role.PLATFORM_ADMIN, ACME), AskedRights(Role.MEMBER)):
        with pytest.raises(Invalid):
            narrowed(ruler, asked)


def test_a_key_that_is_kept_to_images_and_levels_submits_no_others() -> None:
    author = Author(images=("a",), levels=("gvisor",))
    author.check("a", "gvisor")
    for image, level in (("b", "gvisor"), ("a", "container")):
        with pytest.raises(BeyondKey):
            author.check(image, level)
    Author().check("b", "container")
