"""Each tenant's jobs have a user of their own, and never root."""

import pytest

from domain.ids import TenantId
from sandbox.job_user import PLENTY, REMAPPED, job_uid

TENANTS = [TenantId(f"ten_{number}") for number in range(1000)]


def test_no_two_tenants_have_one_user() -> None:
    assert len({job_uid(tenant) for tenant in TENANTS}) == len(TENANTS)


@pytest.mark.parametrize("among", [PLENTY, REMAPPED])
def test_a_user_is_never_root_nor_nobody_and_stays_the_same(among: range) -> None:
    for tenant in TENANTS:
        assert job_uid(tenant, among) in among
        assert job_uid(tenant, among) == job_uid(tenant, among)
    assert not {0, 65_534} & {among[0], among[-1]}
    assert among[0] > 1000


def test_an_engine_that_remaps_users_knows_all_of_its_ids() -> None:
    assert REMAPPED[-1] < 65_534
    assert PLENTY[-1] < 1 << 31
