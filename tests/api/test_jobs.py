"""Jobs over HTTP."""

import pytest
from actors import Actor, a_job, a_key, a_tenant


def test_a_job_is_submitted_shown_and_listed(tenant: Actor) -> None:
    spec = a_job(name="first", env={"A": "1"}, labels={"project": "x"}, max_unreachable="never", grace="5s")
    made = tenant.made("/jobs", spec)
    assert made["state"] == "queued"
    assert made["tenant_id"] == tenant.tenant_id
    assert made["spec"]["command"] == ["true"]
    assert made["spec"]["time_limit"] == "1m"
    assert made["spec"]["max_unreachable"] == "never"
    assert tenant.get(f"/jobs/{made['id']}").json() == made
    assert [job["id"] for job in tenant.get("/jobs").json()["items"]] == [made["id"]]
    assert [job["id"] for job in tenant.get("/jobs?name=first&state=queued").json()["items"]] == [made["id"]]
    assert tenant.get("/jobs?name=other").json()["items"] == []
    assert [event["what"] for event in tenant.get(f"/jobs/{made['id']}/events").json()["items"]] == ["submitted"]
    for part in ("attempts", "artifacts", "ledger"):
        assert tenant.get(f"/jobs/{made['id']}/{part}").json() == {"items": [], "next": None}


def test_a_waiting_job_says_why(tenant: Actor) -> None:
    assert tenant.made("/jobs", a_job())["reason"]["code"] == "not_looked_at_yet"


def test_an_admin_submits_for_a_tenant_that_it_names(admin: Actor, tenant: Actor) -> None:
    assert admin.post("/jobs", a_job()).json()["code"] == "invalid"
    made = admin.made(f"/jobs?tenant_id={tenant.tenant_id}", a_job())
    assert tenant.get(f"/jobs/{made['id']}").status_code == 200
    assert admin.get(f"/jobs/{made['id']}").status_code == 200


def test_cancel_hold_and_release(tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    assert tenant.post(f"/jobs/{job_id}/hold").json()["state"] == "held"
    assert tenant.post(f"/jobs/{job_id}/release").json()["state"] == "queued"
    assert tenant.post(f"/jobs/{job_id}/cancel", {}).json()["state"] == "cancelled"
    assert tenant.post(f"/jobs/{job_id}/cancel").status_code == 200
    refused = tenant.post(f"/jobs/{job_id}/release")
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid_transition")
    assert tenant.get("/quota").json()["queued"] == 0


def test_pages_have_every_job_once_newest_first(tenant: Actor) -> None:
    made = [tenant.made("/jobs", a_job())["id"] for _ in range(7)]
    seen: list[str] = []
    path = "/jobs?limit=3"
    while True:
        page = tenant.get(path).json()
        seen += [job["id"] for job in page["items"]]
        if page["next"] is None:
            break
        path = f"/jobs?limit=3&cursor={page['next']}"
    assert seen == made[::-1]


def test_a_page_of_large_jobs_is_short_and_none_is_missed(tenant: Actor) -> None:
    made = [
        tenant.made("/jobs", a_job(env={"A": "x" * 130_000}, command=["true", "é" * 60_000]))["id"] for _ in range(20)
    ]
    found, cursor, pages = [], None, 0
    while cursor is not None or not pages:
        page = tenant.get("/jobs", params={"limit": 200, **({"cursor": cursor} if cursor else {})})
        assert len(page.content) < 5_000_000
        found += [job["id"] for job in page.json()["items"]]
        cursor, pages = page.json()["next"], pages + 1
    assert pages > 1
    assert found == made[::-1]


def test_a_cursor_of_another_tenant_or_list_is_refused(tenant: Actor, rival: Actor, admin: Actor) -> None:
    for _ in range(3):
        tenant.made("/jobs", a_job())
    cursor = tenant.get("/jobs?limit=1").json()["next"]
    assert tenant.get(f"/jobs?limit=2&cursor={cursor}").status_code == 200
    for actor, path in (
        (rival, f"/jobs?cursor={cursor}"),
        (admin, f"/jobs?cursor={cursor}"),
        (tenant, f"/jobs?state=queued&cursor={cursor}"),
        (tenant, f"/images?cursor={cursor}"),
        (tenant, "/jobs?cursor=AAAA"),
        (tenant, "/jobs?cursor=%F0%9F%A6%84"),
        (tenant, f"/jobs?cursor={'x' * 1000}"),
    ):
        refused = actor.get(path)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=-1", "limit=1.5", "limit=x", "state=open", "name=%00", "sate=queued", "LIMIT=1",
     "limit=1&limit=2", "state=queued&state=held", "cursor=", "%00=1"],
)  # fmt: skip
def test_a_filter_out_of_range_is_refused(tenant: Actor, query: str) -> None:
    assert tenant.get(f"/jobs?{query}").status_code == 422


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"image": "unknown"}, "invalid"),
        ({"isolation": "process"}, "none"),
        ({"time_limit": "8d"}, "quota_exceeded"),
        ({"priority": "urgent"}, "quota_exceeded"),
        ({"resources": {"gpus": 9}}, "quota_exceeded"),
        ({"inputs": ["sha256:" + "0" * 64]}, "invalid"),
    ],
)
def test_what_can_never_run_is_refused_at_once(tenant: Actor, change: dict[str, object], code: str) -> None:
    answer = tenant.post("/jobs", a_job(**change))
    if code == "none":
        assert answer.status_code == 201
        return
    assert answer.json()["code"] == code
    assert tenant.get("/quota").json()["queued"] == 0
    assert tenant.get("/jobs").json()["items"] == []


def test_the_host_image_runs_at_the_process_level_alone(admin: Actor, tenant: Actor) -> None:
    admin.made("/images", {"name": "host", "reference": "host"})
    assert tenant.post("/jobs", a_job(image="host")).json()["code"] == "invalid"
    assert tenant.post("/jobs", a_job(image="host", isolation="process")).json()["code"] == "quota_exceeded"
    quota = {"isolation_levels": ["process"]}
    assert admin.send("PUT", f"/tenants/{tenant.tenant_id}/quota", json=quota).status_code == 200
    assert tenant.post("/jobs", a_job(image="host", isolation="process")).status_code == 201
    assert tenant.post("/jobs", a_job()).json()["code"] == "quota_exceeded"


def test_quotas_are_checked_up_the_tree(admin: Actor, tenant: Actor) -> None:
    team = a_tenant(admin, "team", parent_id=tenant.tenant_id, gpus=64)
    assert team.post("/jobs", a_job(resources={"gpus": 8})).status_code == 201
    assert team.post("/jobs", a_job(resources={"gpus": 9})).json()["code"] == "quota_exceeded"
    admin.post(f"/tenants/{tenant.tenant_id}/suspend")
    assert team.post("/jobs", a_job()).json()["code"] == "tenant_suspended"


def test_a_full_queue_refuses_and_admits_again(admin: Actor, tenant: Actor) -> None:
    quota = {"most_queued": 1}
    admin.send("PUT", f"/tenants/{tenant.tenant_id}/quota", json=quota)
    job_id = tenant.made("/jobs", a_job())["id"]
    assert tenant.post("/jobs", a_job()).json()["code"] == "quota_exceeded"
    tenant.post(f"/jobs/{job_id}/cancel")
    assert tenant.post("/jobs", a_job()).status_code == 201


def test_a_suspended_tenant_reads_and_cancels_and_does_no_more(admin: Actor, tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    admin.post(f"/tenants/{tenant.tenant_id}/suspend")
    assert tenant.get(f"/jobs/{job_id}").status_code == 200
    for refused in (tenant.post("/jobs", a_job()), tenant.post(f"/jobs/{job_id}/hold"), tenant.post("/keys", {})):
        assert (refused.status_code, refused.json()["code"]) == (403, "tenant_suspended")
    assert tenant.post(f"/jobs/{job_id}/cancel").status_code == 200
    admin.post(f"/tenants/{tenant.tenant_id}/resume")
    assert tenant.post("/jobs", a_job()).status_code == 201


def test_a_retired_image_is_not_named_again(admin: Actor, tenant: Actor) -> None:
    assert admin.post("/images/busybox/retire").json()["state"] == "retired"
    assert tenant.post("/jobs", a_job()).json()["code"] == "invalid"
    assert (
        admin.post("/images", {"name": "busybox", "reference": "sha256:" + "b" * 64}, headers=a_key()).status_code
        == 201
    )
    assert tenant.post("/jobs", a_job()).status_code == 201


def test_a_job_for_devices_that_nobody_has_waits_and_is_warned(tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job(resources={"gpus": 2, "gpu_model": "H100"}))["id"]
    events = tenant.get(f"/jobs/{job_id}/events").json()["items"]
    assert [event["what"] for event in events] == ["submitted", "no_device_known"]


def test_events_are_numbered_within_the_job_so_that_nobody_learns_how_busy_others_are(
    tenant: Actor, rival: Actor
) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    for _ in range(3):
        rival.made("/jobs", a_job())
    tenant.post(f"/jobs/{job_id}/hold")
    tenant.post(f"/jobs/{job_id}/release")
    first = tenant.get(f"/jobs/{job_id}/events?limit=2").json()
    rest = tenant.get(f"/jobs/{job_id}/events?limit=2&cursor={first['next']}").json()
    assert [event["id"] for event in first["items"] + rest["items"]] == [1, 2, 3]
    assert rest["next"] is None
