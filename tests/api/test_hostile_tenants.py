"""What tenants try on the server, and on each other."""

import pytest
from actors import Actor, a_job

from store import templates, webhooks

LARGE = {"command": ["true", "x" * 100_000], "image": "busybox", "time_limit": "1m"}


def a_template(tenant: Actor, name: str, job: object) -> None:
    answer = tenant.send("PUT", f"/templates/{name}", json={"job": job})
    assert answer.status_code == 200, answer.text


def test_a_few_words_do_not_become_more_jobs_than_a_body_could_hold(tenant: Actor) -> None:
    a_template(tenant, "large", LARGE)
    answer = tenant.post("/jobs/batch", {"jobs": [{"template": "large"}] * 1000})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert tenant.get("/jobs").json()["items"] == []
    assert tenant.post("/jobs/batch", {"jobs": [{"template": "large"}] * 10}).status_code == 201


@pytest.mark.parametrize("batched", [False, True])
def test_neither_does_an_array(tenant: Actor, batched: bool) -> None:
    job = {**LARGE, "array": {"count": 900}}
    answer = tenant.post("/jobs/batch", {"jobs": [job]}) if batched else tenant.post("/jobs", job)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert tenant.get("/jobs").json()["items"] == []
    small = {**a_job(), "array": {"count": 900}}
    assert tenant.post("/jobs", small).status_code == 201


@pytest.mark.parametrize("jobs", [[{"image": 5}], [{}, {"image": 5}]])
def test_a_job_from_a_template_is_refused_at_its_place(tenant: Actor, jobs: list[dict[str, object]]) -> None:
    a_template(tenant, "small", a_job())
    answer = tenant.post("/jobs/batch", {"jobs": [{"template": "small", **job} for job in jobs]})
    assert answer.status_code == 422
    assert [each["where"] for each in answer.json()["errors"]] == [f"body.jobs.{len(jobs) - 1}.image"]


def test_a_field_that_a_template_leaves_empty_says_nothing(tenant: Actor) -> None:
    a_template(tenant, "small", {**a_job(), "resources": None, "env": {"A": None, "B": "b"}})
    assert tenant.get("/templates/small").json()["job"] == {**a_job(), "env": {"B": "b"}}
    assert tenant.post("/jobs", {"template": "small"}).status_code == 201


def test_templates_are_bounded_in_number(tenant: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "TEMPLATES_MAX", 2)
    for name in ("one", "two"):
        a_template(tenant, name, a_job())
    a_template(tenant, "two", a_job(command=["false"]))
    refused = tenant.send("PUT", "/templates/three", json={"job": a_job()})
    assert (refused.status_code, refused.json()["code"]) == (429, "limit")
    assert tenant.send("DELETE", "/templates/one").status_code == 204
    a_template(tenant, "three", a_job())
    assert tenant.send("PUT", "/templates/one", json={"job": a_job()}).status_code == 429


def test_deliveries_on_demand_are_bounded_in_number(tenant: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "PENDING_MAX", 2)
    made = tenant.made("/webhooks", {"url": "https://example.com/"})["id"]
    sent = [tenant.post(f"/webhooks/{made}/test") for _ in range(3)]
    assert [each.status_code for each in sent] == [200, 200, 429]
    again = tenant.post(f"/webhooks/{made}/deliveries/{sent[0].json()['id']}/redeliver")
    assert (again.status_code, again.json()["code"]) == (429, "limit")


@pytest.mark.parametrize("char", ["\u202e", "\u009b", "\u200b", "\x7f", "\U000e0041"])
def test_an_address_holds_nothing_that_hides_or_steers(tenant: Actor, char: str) -> None:
    assert tenant.post("/members", {"email": f"a{char}@example.org"}).status_code == 422


def test_a_problem_holds_nothing_that_steers_a_terminal(tenant: Actor) -> None:
    detail = tenant.post("/keys", {"a\x7f\x1b[31m\x08\r\n\u009b": 1}).json()
    assert all(char.isprintable() for each in detail["errors"] for char in each["where"])
