"""Whatever is wrong with a request is refused with a problem, stores nothing, and harms nobody."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from actors import Actor, a_job

JSON = {"Content-Type": "application/json"}
DIGITS = "9" * 5000


def refused(actor: Actor, answer: httpx2.Response, *statuses: int) -> None:
    """The answer is a problem with a stable code that tells nothing of the insides; nothing was stored."""
    assert answer.status_code in statuses, answer.text[:300]
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["code"]
    assert problem["status"] == answer.status_code
    assert problem["type"] == f"urn:corral:problem:{problem['code']}"
    assert len(answer.content) < 10_000
    for inside in ("Traceback", "sqlalchemy", "pydantic", "/site-packages", "SELECT"):
        assert inside not in answer.text
    assert actor.get("/jobs").json()["items"] == []
    assert actor.get("/quota").json()["queued"] == 0
    assert actor.client.get("/healthz").status_code == 200


def raw(actor: Actor, body: bytes, **headers: str) -> httpx2.Response:
    return actor.post("/jobs", content=body, headers={**JSON, **headers})


def with_number(field: str, number: str) -> bytes:
    text = json.dumps(a_job(resources={"gpus": 0, "cpus": 1}))
    return text.replace(f'"{field}": {0 if field == "gpus" else 1}', f'"{field}": {number}').encode()


@pytest.mark.parametrize("field", ["gpus", "cpus"])
@pytest.mark.parametrize(
    "number",
    ["-1", "1.5", '"1"', "true", "null", "1" + "0" * 18, "1e308", "NaN", "Infinity", "-Infinity", "1e999", DIGITS,
     "1.0", "[]", "{}", "01", "+1", "0x1", "1_0"],
)  # fmt: skip
def test_numbers(fuzzed: Actor, field: str, number: str) -> None:
    refused(fuzzed, raw(fuzzed, with_number(field, number)), 422)


NOT_JSON = {
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
    "deep and closed": b"[" * 100_000 + b"]" * 100_000,
    "deep in a field": b'{"image":' + b"[" * 33 + b"]" * 33 + b"}",
    "a key twice": b'{"image":"busybox","command":["true"],"image":"busybox"}',
    "a key twice inside": b'{"image":"busybox","command":["true"],"env":{"A":"1","A":"2"}}',
    "cut short": b'{"image":"busy',
    "not UTF-8": b'{"image":"\xff\xfe"}',
    "UTF-16": json.dumps(a_job()).encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + json.dumps(a_job()).encode(),
    "two values": b"{}{}",
    "no object": b"[]",
    "a text": b'"job"',
    "null": b"null",
    "single quotes": b"{'image': 'busybox'}",
    "only a quote": b'"',
    "brackets in an open text": b'{"image":"' + b"[" * 1000,
    "digits": DIGITS.encode(),
    "many digits": b'{"image":' + DIGITS.encode() + b"}",
    "zeros": b"\0" * 100,
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_structures(fuzzed: Actor, name: str) -> None:
    refused(fuzzed, raw(fuzzed, NOT_JSON[name]), 422)


def test_brackets_in_a_text_are_no_nesting(tenant: Actor) -> None:
    assert tenant.post("/jobs", a_job(command=["[" * 100 + '"{' + "\\"])).status_code == 201


@pytest.mark.parametrize("value", [True, 0, 2, 1.0, "1", None])
def test_nodes_is_one(fuzzed: Actor, value: object) -> None:
    refused(fuzzed, fuzzed.post("/jobs", a_job(nodes=value)), 422)


@pytest.mark.parametrize("span", ["0s", "0ms", "1ms", "10s"])
def test_a_job_that_no_heartbeat_could_keep_alive(fuzzed: Actor, span: str) -> None:
    refused(fuzzed, fuzzed.post("/jobs", a_job(max_unreachable=span)), 422)


UNKNOWN = ("privileged", "tenant_id", "state", "host_config", "id", "fence", "__proto__", "user", "volumes")


@pytest.mark.parametrize("field", UNKNOWN)
def test_unknown_fields(fuzzed: Actor, field: str) -> None:
    refused(fuzzed, fuzzed.post("/jobs", a_job(**{field: "x"})), 422)
    refused(fuzzed, fuzzed.post("/jobs", a_job(resources={field: 1})), 422)


UNSAFE = {
    "NUL": "a\0b",
    "a lone surrogate": "a\ud800b",
    "direction override": "abc\u202edef",
    "zero width": "a\u200bb",
    "a line break": "job\n2026-01-01 ERROR forged",
    "a carriage return": "job\rforged",
    "a terminal escape": "\x1b[2Jgone",
    "a line separator": "a\u2028b",
    "megabytes": "x" * 1_500_000,
    "nothing": "",
}


@pytest.mark.parametrize("name", UNSAFE)
@pytest.mark.parametrize("field", ["name", "labels", "label name"])
def test_unsafe_lines(fuzzed: Actor, name: str, field: str) -> None:
    text = UNSAFE[name]
    change: dict[str, Any] = {
        "name": {"name": text},
        "labels": {"labels": {"a": text}},
        "label name": {"labels": {text: "a"}},
    }[field]
    refused(fuzzed, raw(fuzzed, json.dumps(a_job(**change)).encode()), 422)


KEPT = [
    "<script>alert(1)</script>",
    "a\nb\tc",
    "\x1b[31mred",
    "\u202eabc",
    "' OR 1=1 --",
    "é🦄",
    "%s%n{0}",
    "../../etc",
]


def test_what_a_process_can_be_given_is_kept_byte_for_byte(tenant: Actor, image: str) -> None:
    for text in KEPT:
        made = tenant.made("/jobs", a_job(command=["echo", text], env={"A": text}))
        shown = tenant.get(f"/jobs/{made['id']}").json()["spec"]
        assert shown["command"] == ["echo", text]
        assert shown["env"] == {"A": text}


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("field", ["command", "env"])
def test_what_no_process_can_be_given_is_refused(fuzzed: Actor, text: str, field: str) -> None:
    change: dict[str, Any] = {"command": ["echo", text]} if field == "command" else {"env": {"A": text}}
    refused(fuzzed, raw(fuzzed, json.dumps(a_job(**change)).encode()), 422)


ENVIRONMENTS: dict[str, dict[str, str]] = {
    "thousands": {f"V{n}": "1" for n in range(3000)},
    "a large value": {"A": "x" * (128 * 1024 + 1)},
    "LD_PRELOAD": {"LD_PRELOAD": "/x.so"},
    "NVIDIA_VISIBLE_DEVICES": {"NVIDIA_VISIBLE_DEVICES": "all"},
    "CUDA_MPS": {"CUDA_MPS_PIPE_DIRECTORY": "/x"},
    "CUDA_VISIBLE_DEVICES": {"CUDA_VISIBLE_DEVICES": "0"},
    "DOCKER_HOST": {"DOCKER_HOST": "x"},
    "no name": {"": "1"},
    "an equals sign": {"A=B": "1"},
    "a blank": {"A B": "1"},
    "a line break": {"A\n": "1"},
    "a digit first": {"1A": "1"},
}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_environments(fuzzed: Actor, name: str) -> None:
    refused(fuzzed, fuzzed.post("/jobs", a_job(env=ENVIRONMENTS[name])), 422)


IMAGES = ["busybox:latest", "latest/", "docker.io/library/busybox", "busybox@sha256:12", "file:///etc/passwd",
          "BusyBox", "busyb\u043ex", "../busybox", "", "a" * 64, "busybox\n", " busybox",
          "sha256:" + "a" * 64]  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_a_job(fuzzed: Actor, name: str) -> None:
    refused(fuzzed, fuzzed.post("/jobs", a_job(image=name)), 422)


REFERENCES = ["busybox", "busybox:latest", "busybox@latest", "repo/busybox:1@sha256:" + "a" * 64, "file:///x",
              "https://registry/x@sha256:" + "a" * 64, "registry/x@sha256:" + "A" * 64,
              "registry/x@sha256:" + "a" * 63, "registry/x@md5:" + "a" * 32, "r\u0435gistry/x@sha256:" + "a" * 64,
              "sha256:" + "a" * 65, "host ", ""]  # fmt: skip


@pytest.mark.parametrize("reference", REFERENCES)
def test_references_of_the_catalogue(fuzzed_admin: Actor, reference: str) -> None:
    answer = fuzzed_admin.post("/images", {"name": "x", "reference": reference})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert "x" not in [image["name"] for image in fuzzed_admin.get("/images").json()["items"]]


def test_a_body_over_the_limit_also_chunked(fuzzed: Actor) -> None:
    body = json.dumps(a_job(name="x" * 3_000_000)).encode()
    refused(fuzzed, raw(fuzzed, body), 413)

    def chunks() -> Iterator[bytes]:
        for begin in range(0, len(body), 65536):
            yield body[begin : begin + 65536]

    refused(fuzzed, fuzzed.post("/jobs", content=chunks(), headers=JSON), 413)
    refused(fuzzed, raw(fuzzed, b"{}", **{"Content-Length": "99999999999"}), 413)


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp",
             "application/json; charset=utf-16", "text/json", ""],
)  # fmt: skip
def test_wrong_content_types(fuzzed: Actor, kind: str) -> None:
    refused(fuzzed, raw(fuzzed, json.dumps(a_job()).encode(), **{"Content-Type": kind}), 415)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "gzip, gzip", "zstd"])
def test_compressed_bodies(fuzzed: Actor, coding: str) -> None:
    body = gzip.compress(b"{" + b" " * 10_000_000 + b"}")
    refused(fuzzed, raw(fuzzed, body, **{"Content-Encoding": coding}), 415)
    answer = fuzzed.post(
        "/inputs", content=body, headers={"Content-Type": "application/x-tar", "Content-Encoding": coding}
    )
    refused(fuzzed, answer, 415)


def test_method_overrides_and_forged_forwarding_change_nothing(tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    headers = {"X-HTTP-Method-Override": "DELETE", "X-Method-Override": "DELETE", "X-Forwarded-For": "127.0.0.1",
               "X-Forwarded-Host": "evil", "Forwarded": "for=127.0.0.1", "X-Original-URL": "/v1/tenants",
               "X-Rewrite-URL": "/v1/tenants", "X-Forwarded-User": "admin"}  # fmt: skip
    assert tenant.get(f"/jobs/{job_id}", headers=headers).json()["id"] == job_id
    assert tenant.get("/prices", headers=headers).status_code == 403


def test_unknown_routes_and_methods_are_problems(fuzzed: Actor) -> None:
    for method, path, status, code in (
        ("GET", "/nothing", 404, "not_found"),
        ("GET", "/jobs/", 404, "not_found"),
        ("DELETE", "/jobs", 405, "method_not_allowed"),
        ("PATCH", "/whoami", 405, "method_not_allowed"),
        ("TRACE", "/jobs", 405, "method_not_allowed"),
    ):
        answer = fuzzed.send(method, path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    "id", ["job_x", "%00", "job_" + "a" * 26, "job_" + "A" * 26, "a" * 5000, "%F0%9F%A6%84", "%ff"]
)
def test_ids_that_nobody_has_are_not_found(tenant: Actor, id: str) -> None:
    answer = tenant.get(f"/jobs/{id}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_a_body_where_none_belongs_is_refused(tenant: Actor) -> None:
    job_id = tenant.made("/jobs", a_job())["id"]
    assert tenant.post(f"/jobs/{job_id}/cancel", {"force": True}).status_code == 422
    assert tenant.get(f"/jobs/{job_id}").json()["state"] == "queued"


def test_every_answer_is_guarded(tenant: Actor) -> None:
    for answer in (tenant.get("/jobs"), tenant.get("/nothing"), raw(tenant, b"["), tenant.client.get("/healthz")):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["cache-control"] == "no-store"


def test_a_refusal_does_not_repeat_what_was_sent(fuzzed: Actor) -> None:
    secret = "hunter2" * 10
    answer = fuzzed.post("/jobs", a_job(env={"LD_PRELOAD": secret, secret + "=": "x"}, priority=secret))
    assert answer.status_code == 422
    assert secret + secret not in answer.text
    errors = answer.json()["errors"]
    assert errors
    assert all(set(error) == {"where", "why"} for error in errors)
