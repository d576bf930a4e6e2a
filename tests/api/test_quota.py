"""Quotas over HTTP: what applies and whose it is, changes that do not overwrite each other, and more for a time."""

from typing import Any

import httpx2
import pytest
from actors import Actor, a_job, a_tenant
from corral import ApiError, Client
from corral.cli.admin.quota import _changed
from corral.cli.quota import print_quota
from corral.quotas import QuotaPreviewSpec, QuotaSpec

FAR = 2**57
"""A time long after the test's."""


def own(**more: Any) -> dict[str, Any]:
    return {"gpus": [{"model": "*", "limit": 8}], "isolation_levels": ["container", "gvisor"], **more}


def put(admin: Actor, tenant_id: str, quota: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = admin.send("PUT", f"/tenants/{tenant_id}/quota", json=quota, **options)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_what_is_not_set_is_inherited_and_the_narrowest_applies(admin: Actor, image: str) -> None:
    org = a_tenant(admin, "org")
    rules = own(longest_time_limit="1h", most_running=5, images=["busybox"], gpu_hours_per_month=100)
    assert put(admin, org.tenant_id, rules)["steps_up"]["images"] == 0
    team_id = admin.made("/tenants", {"name": "team", "parent_id": org.tenant_id})["id"]
    found = admin.get(f"/tenants/{team_id}/quota").json()
    assert (found["longest_time_limit"], found["most_running"], found["images"]) == ("1h", 5, ["busybox"])
    assert (found["gpu_hours_per_month"], found["money_micro_per_month"]) == (100, None)
    assert found["gpus"] == [
        {"model": "*", "limit": 8, "steps_up": 1, "guaranteed": 0, "borrowable": None, "lendable": None,
         "used_milli": 0, "reserved_milli": 0}
    ]  # fmt: skip
    assert {name: steps for name, steps in found["steps_up"].items() if steps == 0} == {"money_micro_per_month": 0}
    assert found["own"] == {"gpus": []}
    found = put(admin, team_id, own(longest_time_limit="2h", most_running=2, isolation_levels=["process", "gvisor"]))
    assert (found["longest_time_limit"], found["most_running"]) == ("1h", 2)
    assert found["isolation_levels"] == ["gvisor"]
    assert found["steps_up"]["longest_time_limit"] == 1
    assert found["own"]["longest_time_limit"] == "2h"


def test_every_level_of_the_tree_is_asked_at_submission(admin: Actor, image: str) -> None:
    org = a_tenant(admin, "org")
    put(admin, org.tenant_id, own(longest_time_limit="1h", highest_priority="low", most_queued=1))
    team = a_tenant(admin, "team", parent_id=org.tenant_id)
    put(admin, team.tenant_id, own(longest_time_limit="2h", highest_priority="high"))
    for job in (a_job(time_limit="90m", priority="low"), a_job(priority="high"), a_job(resources={"gpus": 9})):
        assert team.post("/jobs", job).json()["code"] == "quota_exceeded"
    team.made("/jobs", a_job(priority="low"))
    assert team.post("/jobs", a_job(priority="low")).json()["code"] == "quota_exceeded"


def test_a_change_of_an_older_version_is_refused(admin: Actor, tenant: Actor) -> None:
    place = f"/tenants/{tenant.tenant_id}/quota"
    tag = admin.get(place).headers["etag"]
    assert put(admin, tenant.tenant_id, own(), headers={"If-Match": tag})["version"] == int(tag.strip('"')) + 1
    late = admin.send("PUT", place, json=own(most_running=1), headers={"If-Match": tag})
    assert (late.status_code, late.json()["code"]) == (412, "quota_changed")
    again = put(admin, tenant.tenant_id, own(), headers={"If-Match": tag})
    assert again["own"] == put(admin, tenant.tenant_id, own(), headers={"If-Match": "*"})["own"]
    assert admin.send("PUT", place, json=own(), headers={"If-Match": "yesterday"}).status_code == 422


def test_more_is_asked_for_granted_and_given_back(admin: Actor, tenant: Actor, rival: Actor) -> None:
    wish = {"model": "*", "limit": 4, "reason": "a deadline", "until": FAR}
    asked = tenant.made("/quota/requests", wish)
    place = f"/quota/requests/{asked['id']}"
    assert rival.get(place).status_code == 404
    assert tenant.post(f"{place}/grant").status_code == 403
    assert [each["id"] for each in admin.get("/quota/requests?state=asked").json()["items"]] == [asked["id"]]
    granted = admin.post(f"{place}/grant", {"limit": 2, "answer": "two will do"}).json()
    assert (granted["state"], granted["limit"], granted["answer"]) == ("granted", 2, "two will do")
    found = tenant.get("/quota").json()
    assert found["gpus"][0]["limit"] == 10
    assert [each["id"] for each in found["grants"]] == [asked["id"]]
    assert tenant.post(f"{place}/withdraw").json()["state"] == "ended"
    assert tenant.get("/quota").json()["gpus"][0]["limit"] == 8
    other = tenant.made("/quota/requests", wish)["id"]
    assert admin.post(f"/quota/requests/{other}/refuse", {"reason": "no room"}).json()["state"] == "refused"
    assert admin.post(f"/quota/requests/{other}/grant").json()["code"] == "invalid_transition"


def test_a_preview_changes_nothing_and_shows_nobody_elses_jobs(admin: Actor, tenant: Actor, rival: Actor) -> None:
    tenant.made("/jobs", a_job(resources={"gpus": 1}))
    before = tenant.get("/quota").json()
    asked = {"tenant_id": tenant.tenant_id, "quota": own(most_queued=0)}
    assert rival.post("/quota/preview", asked).status_code == 404
    found = tenant.post("/quota/preview", asked).json()
    assert found["over"] == [{"row": "queued", "limit": 0, "used": 1, "over": 1}]
    assert [each["code"] for each in found["keeps_waiting"]] == ["no_node"]
    assert found == admin.post("/quota/preview", asked).json()
    assert tenant.get("/quota").json() == before


def test_the_command_changes_what_is_named_and_keeps_the_rest(admin: Actor, tenant: Actor) -> None:
    put(admin, tenant.tenant_id, own(images=["busybox"], gpu_hours_per_month=7))
    transport = served_by(admin)
    with Client("http://corral.test", admin.key, transport=transport) as client:
        rows = {"H100": {"limit": 4, "guaranteed": 2, "lendable": 1}}
        of, spec, version = _changed(client, tenant.tenant_id, rows, (), {"most_running": 3}, {"images"})
        assert version == client.tenant_quota(of).version
        found = client.set_tenant_quota(of, spec, version=version)
        assert (found.most_running, found.images, found.gpu_hours_per_month) == (3, None, 7)
        assert found.own["gpus"] == [
            {"model": "*", "limit": 8},
            {"model": "H100", "limit": 4, "guaranteed": 2, "lendable": 1},
        ]
        with pytest.raises(ApiError, match="quota_changed"):
            client.set_tenant_quota(of, QuotaSpec(), version=version)
        assert client.preview_quota(QuotaPreviewSpec(tenant_id=of, quota=spec)).over == []
        print_quota(found)


def served_by(actor: Actor) -> httpx2.MockTransport:
    """Carries a client's requests to the application."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.copy_with(scheme="http", host="testserver", port=None)
        sent = actor.client.request(request.method, path, headers=request.headers, content=request.read())
        return httpx2.Response(sent.status_code, headers=sent.headers, content=sent.content)

    return httpx2.MockTransport(answer)
