"""Keys that are minted for a pipeline, with less than the rights of the one that mints them."""

import time
from collections.abc import Mapping

import pytest
from actors import Actor, a_job, a_tenant
from sqlalchemy import Engine, update
from sqlmodel import Session, select

from store.engine import writing
from store.purses import purses_of
from store.tables import Job, Purse


def a_key_of(actor: Actor, **spec: object) -> Actor:
    return Actor(actor.client, actor.made("/keys", spec)["key"], actor.tenant_id)


def refused(actor: Actor, code: str, **spec: object) -> None:
    answer = actor.post("/keys", spec)
    assert (answer.status_code, answer.json()["code"]) == (403, code), answer.text


@pytest.mark.parametrize(
    ("makers", "asked"),
    [
        ({"role": "member"}, {"role": "tenant_admin"}),
        ({"role": "tenant_admin"}, {"role": "platform_admin"}),
        ({"scopes": ["keys:write", "jobs:read"]}, {"scopes": ["jobs:write"]}),
        ({"images": ["busybox"]}, {"images": ["busybox", "host"]}),
        ({"isolation_levels": ["gvisor"]}, {"isolation_levels": ["process"]}),
        ({"expires_at": 2**61, "is_child": True}, {"expires_at": 2**61 + 1}),
    ],
)
def test_no_key_makes_one_with_more(tenant: Actor, makers: Mapping[str, object], asked: Mapping[str, object]) -> None:
    refused(a_key_of(tenant, **makers), "beyond_own_rights", **asked)


def test_what_is_left_out_is_as_with_the_maker(tenant: Actor) -> None:
    bounds = {"scopes": ["keys:write"], "images": ["busybox"], "isolation_levels": ["gvisor"], "expires_at": 2**61}
    who = a_key_of(a_key_of(tenant, **bounds), name="child").get("/whoami").json()
    assert {name: who[name] for name in bounds} == bounds
    assert who["parent_key_id"] is not None


def test_an_unbounded_admins_keys_stand_alone_unless_asked(tenant: Actor) -> None:
    assert tenant.made("/keys", {"name": "own"})["parent_key_id"] is None
    assert tenant.made("/keys", {"name": "child", "is_child": True})["parent_key_id"] is not None
    for bounds in ({"role": "member"}, {"scopes": ["keys:write"]}, {"gpus": 1}):
        assert a_key_of(tenant, **bounds).made("/keys", {})["parent_key_id"] is not None


@pytest.mark.parametrize(
    "bounds", [{"is_child": True}, {"images": ["busybox"]}, {"isolation_levels": ["gvisor"]}, {"gpus": 1}]
)
def test_a_bounded_key_gives_nobody_a_place_that_is_not(tenant: Actor, bounds: Mapping[str, object]) -> None:
    held = tenant.made("/members", {"email": "ada@example.org", "role": "viewer"})["id"]
    child = a_key_of(tenant, **bounds)
    for answer in (
        child.post("/members", {"email": "eve@example.org", "role": "tenant_admin"}),
        child.send("PATCH", f"/members/{held}", json={"role": "tenant_admin"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "beyond_key")
    assert [each["role"] for each in tenant.get("/members").json()["items"]] == ["viewer"]


def test_a_key_may_be_made_for_people_alone(tenant: Actor) -> None:
    people = a_key_of(tenant, scopes=["members:read", "members:write"])
    assert people.made("/members", {"email": "ada@example.org"})["state"] == "invited"


def test_a_scope_that_no_route_has_is_refused(tenant: Actor) -> None:
    assert tenant.post("/keys", {"scopes": ["nothing:read"]}).status_code == 422


def test_jobs_are_kept_to_the_keys_images_and_levels(tenant: Actor) -> None:
    child = a_key_of(tenant, images=["host"], isolation_levels=["container"])
    answer = child.post("/jobs", a_job())
    assert (answer.status_code, answer.json()["code"]) == (403, "beyond_key")
    child = a_key_of(tenant, images=["busybox"], isolation_levels=["container"])
    assert child.post("/jobs", a_job()).status_code == 201
    assert child.post("/jobs", a_job(isolation="gvisor")).status_code == 403


def test_a_job_remembers_its_key(tenant: Actor, engine: Engine) -> None:
    child = a_key_of(tenant, name="pipeline")
    child.made("/jobs", a_job())
    with Session(engine) as session:
        assert session.exec(select(Job.key_id)).all() == [child.get("/whoami").json()["key_id"]]


def test_totals_are_purses_of_the_key(tenant: Actor, engine: Engine) -> None:
    made = tenant.made("/keys", {"gpus": 2, "gpu_hours": 100, "money_micro": 5_000_000})
    with Session(engine) as session:
        assert {purse.unit: purse.bound for purse in purses_of(session, made["id"])} == {
            "gpus_milli": 2000, "gpu_time": 100 * 3_600_000_000, "money_micro": 5_000_000
        }  # fmt: skip


def test_what_is_left_of_a_keys_totals_is_shown_to_it_and_to_its_makers(tenant: Actor, engine: Engine) -> None:
    made = tenant.made("/keys", {"name": "pipeline", "money_micro": 5_000_000})
    plain = tenant.made("/keys", {"name": "plain"})
    with writing(engine) as session:
        session.execute(update(Purse).values(held=1_000_000, spent=1_500_000))
    left = [{"unit": "money_micro", "bound": 5_000_000, "held": 1_000_000, "spent": 1_500_000, "left": 2_500_000}]
    shown = {key["id"]: key["totals"] for key in tenant.get("/keys").json()["items"]}
    assert (shown[made["id"]], shown[plain["id"]]) == (left, [])
    own = Actor(tenant.client, made["key"], tenant.tenant_id)
    assert own.get("/whoami").json()["totals"] == left
    assert [(each["owner_id"], each["left"]) for each in own.get("/budget").json()["purses"]] == [
        (made["id"], 2_500_000)
    ]


def test_a_key_that_sees_its_own_jobs_only(tenant: Actor) -> None:
    others = tenant.made("/jobs", a_job())["id"]
    pipeline = a_key_of(tenant, role="member", own_jobs_only=True)
    own = pipeline.made("/jobs", a_job())["id"]
    assert [job["id"] for job in pipeline.get("/jobs").json()["items"]] == [own]
    assert pipeline.get(f"/jobs/{own}/logs").status_code == 200
    unknown = pipeline.get(f"/jobs/{others[:-1]}0")
    for path in (f"/jobs/{others}", f"/jobs/{others}/logs", f"/jobs/{others}/artifacts"):
        assert pipeline.get(path).status_code == 404
    assert pipeline.get(f"/jobs/{others}").content == unknown.content
    assert pipeline.post(f"/jobs/{others}/cancel").status_code == 404
    assert pipeline.get("/usage").status_code == 403
    assert {job["id"] for job in tenant.get("/jobs").json()["items"]} == {own, others}


def test_a_member_sees_and_ends_its_own_keys_only(tenant: Actor) -> None:
    member = a_key_of(tenant, role="member")
    own = member.get("/whoami").json()["key_id"]
    child = member.made("/keys", {"name": "child"})["id"]
    theirs = tenant.made("/keys", {"name": "another"})["id"]
    assert {key["id"] for key in member.get("/keys").json()["items"]} == {own, child}
    assert member.send("DELETE", f"/keys/{theirs}").status_code == 404
    assert member.send("DELETE", f"/keys/{child}").status_code == 204
    assert {own, child, theirs} <= {key["id"] for key in tenant.get("/keys").json()["items"]}


class TestDownTheTree:
    @pytest.fixture
    def team(self, admin: Actor, tenant: Actor) -> Actor:
        """A team below the tenant."""
        return a_tenant(admin, "team", parent_id=tenant.tenant_id)

    def test_a_role_at_an_organisation_holds_in_its_teams(self, tenant: Actor, team: Actor) -> None:
        job_id = team.made("/jobs", a_job())["id"]
        assert tenant.get(f"/jobs/{job_id}").status_code == 200
        assert [job["id"] for job in tenant.get("/jobs").json()["items"]] == []
        assert [job["id"] for job in tenant.get(f"/jobs?tenant_id={team.tenant_id}").json()["items"]] == [job_id]
        assert tenant.get(f"/tenants/{team.tenant_id}/quota").status_code == 200
        assert {each["name"] for each in tenant.get("/tenants").json()["items"]} == {"acme", "team"}
        assert tenant.made(f"/jobs?tenant_id={team.tenant_id}", a_job())["id"] != job_id
        assert tenant.post(f"/jobs/{job_id}/cancel").json()["state"] == "cancelled"

    def test_it_rules_their_keys_and_members(self, tenant: Actor, team: Actor) -> None:
        made = tenant.made(f"/tenants/{team.tenant_id}/keys", {"role": "viewer"})
        assert Actor(tenant.client, made["key"]).get("/whoami").json()["tenant_id"] == team.tenant_id
        member = tenant.made(f"/members?tenant_id={team.tenant_id}", {"email": "ada@example.org"})
        assert team.get(f"/members/{member['id']}").status_code == 200
        assert tenant.send("DELETE", f"/members/{member['id']}").status_code == 204
        assert tenant.send("DELETE", f"/keys/{made['id']}").status_code == 204

    def test_a_team_reaches_nothing_above_or_beside_it(self, admin: Actor, tenant: Actor, team: Actor) -> None:
        beside = a_tenant(admin, "beside", parent_id=tenant.tenant_id)
        job_id = tenant.made("/jobs", a_job())["id"]
        for other in (tenant, beside):
            assert team.get(f"/tenants/{other.tenant_id}").status_code == 404
            assert team.get(f"/jobs?tenant_id={other.tenant_id}").status_code == 404
        assert team.get(f"/jobs/{job_id}").status_code == 404
        assert [each["name"] for each in team.get("/tenants").json()["items"]] == ["team"]


def test_a_childs_life_is_at_most_its_makers(tenant: Actor) -> None:
    soon = time.time_ns() // 1000 + 3600 * 10**6
    child = a_key_of(a_key_of(tenant, role="member", expires_at=soon), name="child")
    assert child.get("/whoami").json()["expires_at"] == soon
