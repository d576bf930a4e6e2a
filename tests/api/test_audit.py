"""Every change by anyone stands in the audit, with who, what and to what; nothing else does, and no secret."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from actors import Actor, a_job, a_key
from click.testing import Result
from corral.cli.main import app as cli_app
from fastapi import FastAPI
from serving import served
from sqlalchemy import Engine
from typer.testing import CliRunner

from api.audit import CHANGES_MAX, changed_fields
from store.audit import Change, append
from store.engine import writing


def audited(actor: Actor, query: str = "") -> list[dict[str, Any]]:
    """Entries, oldest first."""
    answer = actor.get(f"/audit?limit=200{query}")
    assert answer.status_code == 200, answer.text
    return list(reversed(answer.json()["items"]))


def test_who_changed_what_stands_in_the_tenants_chain(tenant: Actor, admin: Actor) -> None:
    made = tenant.post("/jobs", a_job(name="train"))
    tenant.post(f"/jobs/{made.json()['id']}/cancel")
    submitted, cancelled = audited(tenant)[-2:]
    assert (submitted["what"], submitted["target"]) == ("POST /jobs", made.json()["id"])
    assert submitted["actor"] == tenant.get("/whoami").json()["key_id"]
    assert submitted["request_id"] == made.headers["x-request-id"]
    assert (submitted["chain"], submitted["status"]) == (tenant.tenant_id, 201)
    assert json.loads(submitted["changes"])["name"] == "train"
    assert (cancelled["what"], cancelled["target"]) == ("POST /jobs/{job_id}/cancel", made.json()["id"])
    assert [chain["is_sound"] for chain in tenant.get("/audit/verify").json()["items"]] == [True]


def test_what_an_admin_does_to_a_tenant_stands_in_both_chains(tenant: Actor, admin: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    assert admin.post(f"/jobs/{job_id}/hold").status_code == 200
    theirs = audited(tenant)[-1]
    assert (theirs["what"], theirs["target"], theirs["address"]) == ("POST /jobs/{job_id}/hold", job_id, "")
    own = [entry for entry in audited(admin) if entry["chain"] == "platform"][-1]
    assert (own["what"], own["target"], own["request_id"]) == (theirs["what"], job_id, theirs["request_id"])


def test_what_concerns_no_tenant_stands_in_the_platforms_chain_alone(tenant: Actor, admin: Actor) -> None:
    before = audited(tenant)
    assert admin.send("PUT", "/prices", json={"model": "*", "micro_per_gpu_hour": 5}).status_code == 200
    assert audited(tenant) == before
    assert audited(admin)[-1]["what"] == "PUT /prices"


def test_what_was_refused_or_only_repeated_is_no_change(tenant: Actor) -> None:
    once = a_key()
    tenant.post("/jobs", a_job(), headers=once)
    before = audited(tenant)
    assert tenant.post("/jobs", a_job(), headers=once).headers["idempotent-replay"] == "true"
    assert tenant.post("/jobs", a_job(image="none")).status_code == 422
    assert tenant.post("/tenants", {"name": "x"}).status_code == 403
    assert tenant.post("/jobs", {"image": "x", "privileged": True}).status_code == 422
    assert tenant.get("/jobs").status_code == 200
    assert audited(tenant) == before


def test_an_upload_is_a_change(tenant: Actor, a_tar: bytes) -> None:
    made = tenant.post("/inputs", content=a_tar, headers={"Content-Type": "application/x-tar"})
    assert made.status_code == 201
    assert audited(tenant)[-1]["what"] == "POST /inputs"


def test_a_node_that_joins_is_a_change_and_its_heartbeats_are_none(admin: Actor) -> None:
    before = len(audited(admin))
    token = admin.made("/nodes/join-token", {"node_name": "n1"})["token"]
    refused = Actor(admin.client, token).post("/node/heartbeat", {})
    assert refused.status_code in (401, 422)
    assert [entry["what"] for entry in audited(admin)[before:]] == ["POST /nodes/join-token"]


def test_no_secret_is_written_down(tenant: Actor) -> None:
    tenant.post("/jobs", a_job(env={"TOKEN": "hunter2-token"}))
    key = tenant.made("/keys", {"name": "new"})["key"]
    text = json.dumps(audited(tenant))
    assert "hunter2" not in text
    assert key.rpartition("_")[2] not in text
    assert "TOKEN" in text


def test_changes_are_bounded_and_hide_what_is_named_like_a_secret() -> None:
    shown = json.loads(
        changed_fields(
            {
                "password": "a",
                "api_key": "b",
                "value": {"deep": "c"},
                "webhook_secret": "d",
                "url": "https://x/hook?token=e",
                "name": "n" * 1000,
                "many": list(range(1000)),
                "none": None,
            }
        )
    )
    assert [shown[name] for name in ("password", "api_key", "value", "webhook_secret")] == ["[hidden]"] * 4
    assert shown["url"] == "https://x/hook"
    assert (len(shown["name"]), len(shown["many"]), shown["none"]) == (201, 21, None)
    huge = changed_fields({f"field-{n}": {f"f{m}": "x" * 1000 for m in range(50)} for n in range(50)})
    assert len(huge) <= CHANGES_MAX
    assert changed_fields([1, 2]) == changed_fields(None) == "{}"


def test_filters_and_pages(tenant: Actor) -> None:
    ids = [tenant.made("/jobs", a_job())["id"] for _ in range(3)]
    assert [entry["target"] for entry in audited(tenant, f"&target={ids[1]}")] == [ids[1]]
    submissions = audited(tenant, "&what=POST%20/jobs")
    assert [entry["target"] for entry in submissions] == ids
    moment = submissions[1]["at_us"]
    assert [each["target"] for each in audited(tenant, f"&what=POST%20/jobs&since={moment}")] == ids[1:]
    assert [each["target"] for each in audited(tenant, f"&what=POST%20/jobs&until={moment}")] == ids[:1]
    assert audited(tenant, "&actor=key_nobody") == []
    page = tenant.get("/audit?what=POST%20/jobs&limit=2").json()
    rest = tenant.get(f"/audit?what=POST%20/jobs&limit=2&cursor={page['next']}").json()
    assert [entry["target"] for entry in page["items"] + rest["items"]] == ids[::-1]
    assert tenant.get("/audit?actor=%00").status_code == 422


def test_another_tenant_sees_nothing_of_it(tenant: Actor, rival: Actor) -> None:
    tenant.made("/jobs", a_job())
    assert all(entry["chain"] == rival.tenant_id for entry in audited(rival))
    assert [chain["chain"] for chain in rival.get("/audit/verify").json()["items"]] == [rival.tenant_id]
    assert rival.get(f"/audit?tenant_id={tenant.tenant_id}").status_code == 404
    assert rival.get(f"/audit/verify?tenant_id={tenant.tenant_id}").status_code == 404


def test_what_the_system_does_by_itself_stands_there_too(tenant: Actor, engine: Engine) -> None:
    with writing(engine) as session:
        append(session, Change(tenant.tenant_id, "grant_ended", target=tenant.tenant_id))
    assert (audited(tenant)[-1]["what"], audited(tenant)[-1]["actor"]) == ("grant_ended", "system")


@pytest.fixture
def cli(app: FastAPI, tenant: Actor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """The command line of the tenant, against a served application."""
    with served(app) as port:
        monkeypatch.setenv("CORRAL_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("CORRAL_KEY", tenant.key)
        yield lambda *args: CliRunner().invoke(cli_app, list(args))


def test_an_export_is_checked_without_the_server(cli: Callable[..., Result], tenant: Actor, tmp_path: Path) -> None:
    tenant.made("/jobs", a_job(name="train"))
    assert "train" in cli("audit", "list", "--json").stdout
    assert "sound" in cli("audit", "verify").stdout
    export = tmp_path / "audit.jsonl"
    assert cli("audit", "export", str(export)).exit_code == 0
    lines = export.read_text().splitlines()

    def check(changed: list[str]) -> Result:
        export.write_text("\n".join(changed))
        return cli("audit", "verify", str(export))

    assert check(lines).exit_code == 0
    newest = next(n for n, line in enumerate(lines) if "train" in line)
    forged = lines[newest].replace("train", "trail")
    assert "from entry" in check([*lines[:newest], forged, *lines[newest + 1 :]]).stdout
    assert check([*lines[:newest], *lines[newest + 1 :]]).exit_code == 1
    assert check(["{}"]).exit_code == 1


def test_only_those_who_rule_a_tenant_read_its_audit_and_its_webhooks(tenant: Actor) -> None:
    for role in ("member", "viewer"):
        lower = Actor(tenant.client, tenant.made("/keys", {"name": role, "role": role})["key"])
        for path in ("/audit", "/audit/verify", "/webhooks"):
            assert lower.get(path).status_code == 403
