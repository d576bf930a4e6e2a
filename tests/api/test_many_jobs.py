"""Batches, arrays, dependencies, later starts and templates, over HTTP."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from actors import Actor, a_job, a_key
from sqlalchemy import Engine
from sqlmodel import select

from store.engine import reading
from store.quotas import recount_jobs
from store.tables import Job, Quota


def queue_is_counted_right(engine: Engine) -> bool:
    with reading(engine) as session:
        counted = recount_jobs(session)
        rows = session.exec(select(Quota.tenant_id, Quota.queued_used).where(Quota.model == "*")).all()
    return all(counted.get(tenant_id, (0, 0))[0] == queued for tenant_id, queued in rows)


def an_end(tenant: Actor, job_id: str) -> None:
    assert tenant.post(f"/jobs/{job_id}/cancel").status_code == 200


class TestBatches:
    def test_all_are_queued_in_their_order(self, tenant: Actor, engine: Engine) -> None:
        ids = tenant.made("/jobs/batch", {"jobs": [a_job(name=f"n{n}") for n in range(30)]})["ids"]
        assert [tenant.get(f"/jobs/{each}").json()["spec"]["name"] for each in ids[:3]] == ["n0", "n1", "n2"]
        assert len(set(ids)) == 30
        assert queue_is_counted_right(engine)

    def test_one_that_is_refused_keeps_all_out_and_is_named(self, tenant: Actor, engine: Engine) -> None:
        answer = tenant.post("/jobs/batch", {"jobs": [a_job(), a_job(image="nosuch"), a_job()]})
        assert answer.status_code == 422
        assert answer.json()["code"] == "batch_refused"
        assert [each["where"] for each in answer.json()["errors"]] == ["jobs.1"]
        assert tenant.get("/jobs").json()["items"] == []
        assert queue_is_counted_right(engine)

    def test_one_that_is_no_job_is_named(self, tenant: Actor) -> None:
        answer = tenant.post("/jobs/batch", {"jobs": [a_job(), a_job(privileged=True)]})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["where"] == "body.jobs.1.privileged"

    def test_sent_again_under_its_key_it_is_the_same(self, tenant: Actor) -> None:
        key, body = a_key(), {"jobs": [a_job(), a_job()]}
        first, second = (tenant.post("/jobs/batch", body, headers=key) for _ in range(2))
        assert first.json() == second.json()
        assert second.headers["Idempotent-Replay"] == "true"
        assert len(tenant.get("/jobs").json()["items"]) == 2

    def test_later_jobs_wait_for_earlier_ones_by_name(self, tenant: Actor) -> None:
        jobs = [a_job(name="prep"), a_job(name="train", after=["#prep"])]
        prep, train = tenant.made("/jobs/batch", {"jobs": jobs})["ids"]
        assert tenant.get(f"/jobs/{train}").json()["reason"]["code"] == "waiting_for_jobs"
        an_end(tenant, prep)
        assert tenant.get(f"/jobs/{train}").json()["state"] == "cancelled"

    def test_a_name_that_is_not_there_is_refused(self, tenant: Actor) -> None:
        answer = tenant.post("/jobs/batch", {"jobs": [a_job(name="a", after=["#b"]), a_job(name="b")]})
        assert answer.status_code == 422


class TestArrays:
    def test_its_jobs_are_told_apart_and_listed(self, tenant: Actor, engine: Engine) -> None:
        first = tenant.made("/jobs", a_job(array={"count": 5, "first": 10, "step": 2}))
        array_id = first["array"]["id"]
        jobs = tenant.get("/jobs", params={"array": array_id}).json()["items"]
        assert sorted(job["array"]["index"] for job in jobs) == [10, 12, 14, 16, 18]
        assert tenant.get(f"/arrays/{array_id}").json()["states"] == {"queued": 5}
        assert queue_is_counted_right(engine)

    def test_it_is_cancelled_at_once(self, tenant: Actor, engine: Engine) -> None:
        array_id = tenant.made("/jobs", a_job(array={"count": 5}))["array"]["id"]
        assert tenant.post(f"/arrays/{array_id}/cancel").json()["states"] == {"cancelled": 5}
        assert tenant.post(f"/arrays/{array_id}/cancel").json()["states"] == {"cancelled": 5}
        assert queue_is_counted_right(engine)

    def test_another_tenants_is_not_there(self, tenant: Actor, rival: Actor) -> None:
        array_id = tenant.made("/jobs", a_job(array={"count": 2}))["array"]["id"]
        assert rival.get(f"/arrays/{array_id}").status_code == 404
        assert rival.post(f"/arrays/{array_id}/cancel").status_code == 404

    def test_the_quota_counts_each_of_its_jobs(self, admin: Actor, tenant: Actor, engine: Engine) -> None:
        answer = tenant.post("/jobs", a_job(array={"count": 10_000}))
        assert answer.status_code == 403
        assert queue_is_counted_right(engine)


class TestDependencies:
    def test_a_dependent_is_let_go_by_the_end_it_waits_for(self, tenant: Actor) -> None:
        first = tenant.made("/jobs", a_job())["id"]
        second = tenant.made("/jobs", a_job(after=[{"job": first, "on": "any"}]))
        assert second["reason"] == {
            "code": "waiting_for_jobs", "text": second["reason"]["text"], "numbers": {"left": 1},
        }  # fmt: skip
        an_end(tenant, first)
        assert tenant.get(f"/jobs/{second['id']}").json()["reason"]["code"] == "not_looked_at_yet"

    def test_what_can_no_longer_come_cancels_all_that_wait_for_it(self, tenant: Actor, engine: Engine) -> None:
        ids = [tenant.made("/jobs", a_job())["id"]]
        for _ in range(3):
            ids.append(tenant.made("/jobs", a_job(after=[ids[-1]]))["id"])
        an_end(tenant, ids[0])
        views = [tenant.get(f"/jobs/{each}").json() for each in ids[1:]]
        assert [view["state"] for view in views] == ["cancelled"] * 3
        assert {view["reason"]["code"] for view in views} == {"dependency_failed"}
        assert queue_is_counted_right(engine)

    def test_an_array_is_waited_for_as_a_whole(self, tenant: Actor) -> None:
        array_id = tenant.made("/jobs", a_job(array={"count": 2}))["array"]["id"]
        waits = tenant.made("/jobs", a_job(after=[{"job": array_id, "on": "failure"}]))["id"]
        one, other = (job["id"] for job in tenant.get("/jobs", params={"array": array_id}).json()["items"])
        an_end(tenant, one)
        assert tenant.get(f"/jobs/{waits}").json()["reason"]["code"] == "waiting_for_jobs"
        an_end(tenant, other)
        assert tenant.get(f"/jobs/{waits}").json()["reason"]["code"] == "not_looked_at_yet"

    def test_another_tenants_job_is_as_unknown_as_none(self, tenant: Actor, rival: Actor) -> None:
        theirs = rival.made("/jobs", a_job())["id"]
        answers = [tenant.post("/jobs", a_job(after=[each])) for each in (theirs, "job_" + "0" * 26)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()

    def test_an_end_that_came_otherwise_is_refused_at_once(self, tenant: Actor) -> None:
        over = tenant.made("/jobs", a_job())["id"]
        an_end(tenant, over)
        assert tenant.post("/jobs", a_job(after=[over])).status_code == 422
        assert tenant.post("/jobs", a_job(after=[{"job": over, "on": "failure"}])).status_code == 201

    def test_a_held_dependent_keeps_its_reason_when_it_is_released(self, tenant: Actor) -> None:
        first = tenant.made("/jobs", a_job())["id"]
        second = tenant.made("/jobs", a_job(after=[first]))["id"]
        tenant.post(f"/jobs/{second}/hold")
        assert tenant.post(f"/jobs/{second}/release").json()["reason"]["code"] == "waiting_for_jobs"

    def test_an_end_and_a_new_dependent_do_not_miss_each_other(self, tenant: Actor, engine: Engine) -> None:
        for _ in range(5):
            first = tenant.made("/jobs", a_job())["id"]
            with ThreadPoolExecutor(4) as pool:
                ended = pool.submit(an_end, tenant, first)
                asked = [
                    pool.submit(tenant.post, "/jobs", a_job(after=[{"job": first, "on": "any"}])) for _ in range(3)
                ]
            ended.result()
            ids = [each.result().json()["id"] for each in asked]
            reasons = {tenant.get(f"/jobs/{each}").json()["reason"]["code"] for each in ids}
            assert reasons == {"not_looked_at_yet"}
        assert queue_is_counted_right(engine)


class TestLaterStarts:
    @pytest.mark.parametrize("start", ["2h", "2099-01-01T00:00:00Z", 4_000_000_000_000_000])
    def test_every_way_to_say_it_is_taken(self, tenant: Actor, engine: Engine, start: object) -> None:
        job = tenant.made("/jobs", a_job(not_before=start))
        assert job["spec"]["not_before"] == start
        with reading(engine) as session:
            assert session.get_one(Job, job["id"]).not_before_us > job["submitted_at"] + 7_000_000_000

    @pytest.mark.parametrize("start", ["tomorrow", "2099-01-01", "2099-01-01T00:00:00", -1, True, 1.5, 10**18, ""])
    def test_nothing_else_is(self, tenant: Actor, start: object) -> None:
        assert tenant.post("/jobs", a_job(not_before=start)).status_code == 422


class TestTemplates:
    def test_a_job_is_made_of_one_and_shows_which(self, tenant: Actor) -> None:
        template = {"job": a_job(resources={"cpus": 2, "memory": "1GiB"}, env={"A": "1", "B": "2"})}
        assert tenant.send("PUT", "/templates/train", json=template).json()["version"] == 1
        job = tenant.made("/jobs", {"template": "train", "resources": {"cpus": 3}, "env": {"B": None, "C": "3"}})
        assert job["template"] == {"name": "train", "version": 1}
        assert (job["spec"]["resources"]["cpus"], job["spec"]["resources"]["memory"]) == (3, "1GiB")
        assert job["spec"]["env"] == {"A": "1", "C": "3"}
        assert tenant.get(f"/jobs/{job['id']}").json()["template"] == {"name": "train", "version": 1}

    def test_its_version_never_comes_back(self, tenant: Actor) -> None:
        versions = []
        for cpus in (1, 1, 2):
            answer = tenant.send("PUT", "/templates/t", json={"job": {"resources": {"cpus": cpus}}})
            versions.append(answer.json()["version"])
        assert tenant.send("DELETE", "/templates/t").status_code == 204
        assert tenant.get("/templates/t").status_code == 404
        versions.append(tenant.send("PUT", "/templates/t", json={"job": {}}).json()["version"])
        assert versions == [1, 1, 2, 3]

    def test_what_comes_of_it_is_as_strict_as_any_job(self, tenant: Actor) -> None:
        tenant.send("PUT", "/templates/t", json={"job": {"image": "busybox"}})
        answer = tenant.post("/jobs", {"template": "t", "privileged": True})
        assert answer.status_code == 422
        assert {each["where"] for each in answer.json()["errors"]} == {"body.command", "body.privileged"}

    @pytest.mark.parametrize("job", [{"state": "running"}, {"resources": {"cpus": 0}}, {"template": "t"}, 7, None])
    def test_one_that_fits_no_job_is_refused(self, tenant: Actor, job: object) -> None:
        assert tenant.send("PUT", "/templates/t", json={"job": job}).status_code == 422

    def test_another_tenants_is_not_there(self, tenant: Actor, rival: Actor) -> None:
        tenant.send("PUT", "/templates/mine", json={"job": a_job()})
        assert rival.get("/templates/mine").status_code == 404
        assert rival.post("/jobs", {"template": "mine"}).status_code == 404
        assert rival.get("/templates").json()["items"] == []


class TestGroups:
    def test_one_that_is_refused_does_not_touch_the_others(self, tenant: Actor, engine: Engine) -> None:
        jobs = [a_job(image="nosuch") if n % 4 == 0 else a_job() for n in range(24)]
        with ThreadPoolExecutor(12) as pool:
            codes = [each.status_code for each in pool.map(lambda job: tenant.post("/jobs", job), jobs)]
        assert codes == [422 if n % 4 == 0 else 201 for n in range(24)]
        assert len(tenant.get("/jobs").json()["items"]) == 18
        assert queue_is_counted_right(engine)

    def test_one_key_many_times_at_once_makes_one_job(self, tenant: Actor) -> None:
        key = a_key()
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda _: tenant.post("/jobs", a_job(), headers=key), range(32)))
        assert {json.dumps(answer.json(), sort_keys=True) for answer in answers} == {
            json.dumps(answers[0].json(), sort_keys=True)
        }
        assert len(tenant.get("/jobs").json()["items"]) == 1

    def test_a_revoked_key_ends_at_once(self, admin: Actor, tenant: Actor) -> None:
        made = admin.made(f"/tenants/{tenant.tenant_id}/keys", {"name": "short"})
        short = Actor(tenant.client, made["key"], tenant.tenant_id)
        assert short.post("/jobs", a_job()).status_code == 201
        assert admin.send("DELETE", f"/tenants/{tenant.tenant_id}/keys/{made['id']}").status_code == 204
        assert short.post("/jobs", a_job()).status_code == 401

    def test_a_suspended_tenant_submits_nothing_from_then_on(self, admin: Actor, tenant: Actor) -> None:
        assert tenant.post("/jobs", a_job()).status_code == 201
        admin.post(f"/tenants/{tenant.tenant_id}/suspend")
        assert tenant.post("/jobs", a_job()).json()["code"] == "tenant_suspended"
        admin.post(f"/tenants/{tenant.tenant_id}/resume")
        assert tenant.post("/jobs", a_job()).status_code == 201
