"""People log in through a provider; what it does not vouch for, and what is not fresh, lets nobody in."""

import base64
import hmac
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from actors import Actor
from fastapi import FastAPI
from fastapi.testclient import TestClient
from joserfc import jwt
from oidc_provider import CLIENT_ID, CLIENT_SECRET, RSA, STRANGERS, SmallProvider, a_provider, by_ec
from pydantic import SecretStr
from serving import served

from api.app import create_app
from api.connection import BoundedConnection
from api.oidc_settings import OidcRule, OidcSettings
from api.settings import ApiSettings
from domain.roles import Role
from store.logins import s256

RULES = [
    OidcRule(claim="groups", value="vision", role=Role.MEMBER, tenant="acme"),
    OidcRule(claim="groups", value="ops", role=Role.PLATFORM_ADMIN),
]


@pytest.fixture
def provider() -> Iterator[SmallProvider]:
    """A provider that answers."""
    with a_provider() as answering:
        yield answering


@pytest.fixture
def settings(database_url: str, tmp_path: Path, provider: SmallProvider) -> ApiSettings:
    """Settings of an API process to which people log in."""
    return ApiSettings(
        database_url=database_url,
        redis_url="unix:///nowhere",
        storage_url=f"file://{tmp_path}/storage",
        public_url="http://testserver",
        oidc=OidcSettings(
            issuer=provider.issuer,
            client_id=CLIENT_ID,
            client_secret=SecretStr(CLIENT_SECRET),
            domains=["example.org"],
            roles=RULES,
        ),
    )


def way_back(client: TestClient, **asked: str) -> str:
    """Go to the provider and agree: where the browser is sent then."""
    begun = client.get("/v1/login", params=asked, follow_redirects=False)
    assert begun.status_code == 302, begun.text
    agreed = httpx2.get(begun.headers["location"], follow_redirects=False, trust_env=False)
    target = agreed.headers["location"]
    assert target.startswith("http://testserver/v1/login/callback?")
    return str(target)


def log_in(client: TestClient, **asked: str) -> httpx2.Response:
    """All of the way."""
    return client.get(way_back(client, **asked))


def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text


def invited(tenant: Actor, role: str = "member", email: str = "Ada@Example.org") -> str:
    return str(tenant.made("/members", {"email": email, "role": role})["id"])


class TestWhoIsLetIn:
    def test_a_stranger_has_no_place(self, client: TestClient, tenant: Actor) -> None:
        refused(log_in(client), 403, "not_invited")

    @pytest.mark.parametrize("is_curve", [False, True])
    def test_an_invited_person_gets_a_key_of_their_role(
        self, client: TestClient, tenant: Actor, provider: SmallProvider, is_curve: bool
    ) -> None:
        member_id = invited(tenant)
        if is_curve:
            provider.sign = by_ec
        answer = log_in(client)
        assert answer.status_code == 200, answer.text
        assert answer.headers["cache-control"] == "no-store"
        made = answer.json()
        ada = Actor(client, made["key"])
        who = ada.get("/whoami").json()
        assert (who["role"], who["tenant_id"], who["member_id"]) == ("member", tenant.tenant_id, member_id)
        assert who["member_name"] == "Ada"
        assert 11 * 3600 < who["expires_at"] / 10**6 - time.time() < 13 * 3600
        assert tenant.get(f"/members/{member_id}").json()["state"] == "active"

    def test_an_address_that_is_not_verified_finds_no_invitation(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        invited(tenant)
        provider.person["email_verified"] = False
        refused(log_in(client), 403, "login_refused")

    def test_an_address_of_another_domain_is_refused(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        invited(tenant, email="ada@elsewhere.org")
        provider.person["email"] = "ada@elsewhere.org"
        refused(log_in(client), 403, "login_refused")

    def test_letters_that_only_unicode_takes_for_others_are_others(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        """The sign of the kelvin is a k, made small."""
        invited(tenant, email="kim@example.org")
        provider.person["email"] = "\u212aim@example.org"
        refused(log_in(client), 403, "not_invited")
        provider.person["email"] = "kim@example.org.\u212aim"
        refused(log_in(client), 403, "login_refused")

    def test_an_address_that_would_steer_a_terminal_is_none(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        provider.person["email"] = "a\u202eda@example.org"
        refused(log_in(client), 403, "login_refused")

    def test_another_tenants_invitation_stands_in_nobodys_way(
        self, client: TestClient, tenant: Actor, rival: Actor
    ) -> None:
        invited(tenant)
        assert log_in(client).status_code == 200
        theirs = invited(rival)
        assert log_in(client).json()["tenant_id"] == tenant.tenant_id
        assert rival.get(f"/members/{theirs}").json()["state"] == "invited"
        assert log_in(client, tenant="rival").json()["tenant_id"] == rival.tenant_id

    def test_who_takes_over_an_address_is_not_the_person(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        invited(tenant)
        assert log_in(client).status_code == 200
        provider.person["sub"] = "mallory"
        refused(log_in(client), 403, "not_invited")

    def test_the_person_is_known_again_under_another_address(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        invited(tenant)
        first = log_in(client).json()
        provider.person["email"] = "ada.new@example.org"
        assert log_in(client).json()["member_id"] == first["member_id"]

    def test_claims_give_places_and_take_them_back(
        self, client: TestClient, tenant: Actor, provider: SmallProvider
    ) -> None:
        provider.person["groups"] = ["vision", "ops"]
        refused(log_in(client), 422, "invalid")
        here = Actor(client, log_in(client, tenant="acme").json()["key"])
        ops = Actor(client, log_in(client, tenant="platform").json()["key"])
        assert ops.get("/whoami").status_code == 200, ops.get("/whoami").text
        assert (here.get("/whoami").json()["role"], ops.get("/whoami").json()["role"]) == ("member", "platform_admin")
        provider.person["groups"] = ["vision"]
        assert log_in(client).json()["tenant_id"] == tenant.tenant_id
        assert ops.get("/whoami").status_code == 401
        assert here.get("/whoami").status_code == 200

    def test_a_removed_member_is_out_at_once(self, client: TestClient, tenant: Actor) -> None:
        member_id = invited(tenant)
        ada = Actor(client, log_in(client).json()["key"])
        own = Actor(client, ada.made("/keys", {"name": "laptop"})["key"])
        child = Actor(client, own.made("/keys", {"name": "pipeline", "is_child": True})["key"])
        assert child.get("/whoami").json()["member_id"] == member_id
        assert tenant.send("DELETE", f"/members/{member_id}").status_code == 204
        assert [each.get("/whoami").status_code for each in (ada, own, child)] == [401, 401, 401]
        refused(log_in(client), 403, "not_invited")

    def test_a_lowered_role_counts_at_once(self, client: TestClient, tenant: Actor) -> None:
        member_id = invited(tenant, "tenant_admin")
        ada = Actor(client, log_in(client).json()["key"])
        assert ada.get("/members").status_code == 200
        assert tenant.send("PATCH", f"/members/{member_id}", json={"role": "viewer"}).status_code == 200
        assert ada.get("/members").status_code == 403
        assert ada.get("/whoami").json()["role"] == "viewer"


def encoded(*parts: object) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


def unsigned(claims: dict[str, Any]) -> str:
    return f"{encoded({'alg': 'none', 'typ': 'JWT'}, claims)}."


def by_public_key(claims: dict[str, Any]) -> str:
    """The confusion: a MAC with the public key as its secret."""
    signed = encoded({"alg": "HS256", "kid": "rsa-1"}, claims)
    digest = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def by_stranger(claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "RS256", "kid": "rsa-1"}, claims, STRANGERS)


def by_own_key(claims: dict[str, Any]) -> str:
    header = {"alg": "RS256", "jwk": STRANGERS.as_dict(private=False)}
    return jwt.encode(header, claims, STRANGERS)


class TestWhatIsNotBelieved:
    @pytest.mark.parametrize(
        "changed",
        [
            {"nonce": "another"},
            {"nonce": None},
            {"aud": "somebody-else"},
            {"aud": ["corral", "somebody-else"]},
            {"aud": ["corral", "somebody-else"], "azp": "somebody-else"},
            {"aud": None},
            {"iss": "https://elsewhere.example.org"},
            {"iss": None},
            {"exp": 1},
            {"exp": None},
            {"iat": 2**40},
            {"sub": None},
            {"sub": ""},
        ],
        ids=str,
    )
    def test_a_claim_that_is_wrong(
        self, client: TestClient, tenant: Actor, provider: SmallProvider, changed: dict[str, Any]
    ) -> None:
        invited(tenant)
        provider.changed = changed
        refused(log_in(client), 403, "login_refused")

    @pytest.mark.parametrize("sign", [unsigned, by_public_key, by_stranger, by_own_key])
    def test_a_signature_that_is_not_the_providers(
        self, client: TestClient, tenant: Actor, provider: SmallProvider, sign: Any
    ) -> None:
        invited(tenant)
        provider.sign = sign
        refused(log_in(client), 403, "login_refused")

    def test_a_provider_that_refuses(self, client: TestClient, tenant: Actor, provider: SmallProvider) -> None:
        invited(tenant)
        provider.refuses = True
        refused(log_in(client), 403, "login_refused")

    def test_a_way_back_that_was_gone_already(self, client: TestClient, tenant: Actor, provider: SmallProvider) -> None:
        invited(tenant)
        target = way_back(client)
        cookie = client.cookies["corral_login"]
        assert client.get(target).status_code == 200
        refused(client.get(target, headers={"Cookie": f"corral_login={cookie}"}), 403, "login_over")

    def test_a_code_of_an_earlier_login(self, client: TestClient, tenant: Actor, provider: SmallProvider) -> None:
        invited(tenant)
        used = httpx2.URL(way_back(client)).params
        assert client.get("/v1/login/callback", params=used).status_code == 200
        fresh = dict(httpx2.URL(way_back(client)).params)
        answer = client.get("/v1/login/callback", params={**fresh, "code": used["code"]})
        refused(answer, 403, "login_refused")

    def test_a_way_back_in_another_browser(self, client: TestClient, tenant: Actor, provider: SmallProvider) -> None:
        invited(tenant)
        target = way_back(client)
        client.cookies.clear()
        refused(client.get(target), 403, "login_over")
        way_back(client)  # the other browser has begun a login of its own
        refused(client.get(target), 403, "login_over")

    @pytest.mark.parametrize("query", ["", "?state=x", "?code=x", "?state=x&code=y", "?state=%00"])
    def test_a_way_back_that_nobody_began(self, client: TestClient, query: str) -> None:
        assert client.get(f"/v1/login/callback{query}").status_code in (403, 422)


class TestAProgramThatWaits:
    def test_it_trades_the_code_that_the_person_was_shown(self, client: TestClient, tenant: Actor) -> None:
        invited(tenant)
        verifier = secrets.token_urlsafe(32)
        shown = log_in(client, challenge=s256(verifier))
        assert shown.headers["content-type"].startswith("text/plain")
        code = shown.text.split("\n")[0]
        wrong = {"code": code, "verifier": secrets.token_urlsafe(32)}
        refused(client.post("/v1/login/token", json=wrong), 403, "login_over")
        made = client.post("/v1/login/token", json={"code": code, "verifier": verifier})
        assert Actor(client, made.json()["key"]).get("/whoami").json()["role"] == "member"
        refused(client.post("/v1/login/token", json={"code": code, "verifier": verifier}), 403, "login_over")


def test_the_command_line_logs_a_person_in(app: FastAPI, tenant: Actor, tmp_path: Path) -> None:
    invited(tenant)
    corral = [sys.executable, "-m", "corral.cli.main"]
    env = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "COLUMNS": "80"}
    with served(app, BoundedConnection) as port:
        url = f"http://127.0.0.1:{port}"
        command = [*corral, "login", "--sso", "--url", url]
        waiting = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        )
        assert waiting.stderr is not None
        address = next(line.strip() for line in waiting.stderr if line.strip().startswith("http"))
        with httpx2.Client(trust_env=False, follow_redirects=False) as browser:
            agreed = browser.get(browser.get(address).headers["location"])
            back = httpx2.URL(agreed.headers["location"])
            shown = browser.get(f"{url}{back.raw_path.decode()}")
        said, _ = waiting.communicate(shown.text.split("\n")[0] + "\n", timeout=60)
        assert (waiting.returncode, "member" in said) == (0, True)
        who = subprocess.run([*corral, "whoami", "--json"], env=env, capture_output=True, check=True, timeout=60)
    assert json.loads(who.stdout)["member_name"] == "Ada"


def test_a_server_without_a_provider_says_so(database_url: str, tmp_path: Path) -> None:
    settings = ApiSettings(database_url=database_url, redis_url="unix:///nowhere", storage_url=f"file://{tmp_path}/s")
    with TestClient(create_app(settings)) as alone:
        refused(alone.get("/v1/login", follow_redirects=False), 409, "conflict")
