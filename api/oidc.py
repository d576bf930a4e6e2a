"""An OpenID provider: where a person is sent, and what is believed of what comes back.

Authorisation code with PKCE, state and nonce. Of the provider, its signature on the ID token is believed and nothing
else: by the keys that it publishes, with an algorithm that cannot be confused with a shared secret.
"""

import hmac
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import httpx2
from corral.identity import Email
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from api.settings import ApiSettings
from domain.addresses import spelled
from domain.errors import Away, LoginRefused
from store.logins import s256
from store.people import Grant, Person

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by a private key. Neither `none`, nor a MAC, with which the public key could be taken for a secret."""
EMAIL: TypeAdapter[str] = TypeAdapter(Email)
LEEWAY_SECONDS = 60
METADATA_SECONDS = 3600
NEW_KEYS_SECONDS = 30
"""An unknown key is looked for at most this often."""
ANSWER_BYTES_MAX = 2**20
TIMEOUT = httpx2.Timeout(10.0)
CALLBACK = "/v1/login/callback"


class Metadata(BaseModel):
    """What of a provider's own description is needed."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: list[str] = ["client_secret_basic"]


@dataclass(frozen=True, slots=True)
class Vouched:
    """A person, and what the provider claims of them."""

    person: Person
    grants: tuple[Grant, ...]


class Provider:
    """One provider, as the settings name it. Used by many requests at once."""

    def __init__(self, settings: ApiSettings) -> None:
        self._oidc = settings.oidc
        self._secret = settings.oidc.secret()
        self.callback_url = f"{settings.public_url.rstrip('/')}{CALLBACK}"
        self._http = httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False, trust_env=False)
        self._metadata: Metadata | None = None
        self._metadata_until = 0.0
        self._keys: KeySet | None = None
        self._keys_read = 0.0

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def way_in(self, state: str, nonce: str, verifier: str) -> str:
        """Where the person is sent.

        Raises:
            Away: the provider does not answer.
        """
        metadata = await self._described()
        asked = {
            "response_type": "code",
            "client_id": self._oidc.client_id,
            "redirect_uri": self.callback_url,
            "scope": self._oidc.scope,
            "state": state,
            "nonce": nonce,
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
        }
        mark = "&" if "?" in metadata.authorization_endpoint else "?"
        return f"{metadata.authorization_endpoint}{mark}{urlencode(asked)}"

    async def vouched(self, code: str, verifier: str, nonce: str) -> Vouched:
        """Whom the provider vouches for.

        Raises:
            LoginRefused: what came is not as it must be, or the operator's rules keep the person out.
            Away: the provider does not answer.
        """
        answer = await self._traded(code, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise LoginRefused("the provider gave no ID token")
        claims = await self._verified(token, nonce)
        access = answer.get("access_token")
        if "email" not in claims and isinstance(access, str):
            claims = {**await self._more_of(str(claims["sub"]), access), **claims}
        return self._vouched(claims)

    def _vouched(self, claims: Mapping[str, Any]) -> Vouched:
        address = _address(claims.get("email")) if claims.get("email_verified") is True else None
        if self._oidc.domains and (address is None or address.rpartition("@")[2] not in self._oidc.domains):
            raise LoginRefused("your address is of none of the domains that may log in, or is not verified")
        name = claims.get("name") or claims.get("preferred_username") or address or claims["sub"]
        person = Person(self._oidc.issuer, str(claims["sub"]), _line(str(name)), address)
        return Vouched(person, tuple(rule.grant for rule in self._oidc.roles if rule.holds(claims)))

    async def _traded(self, code: str, verifier: str) -> Mapping[str, Any]:
        metadata = await self._described()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback_url,
            "code_verifier": verifier,
            "client_id": self._oidc.client_id,
        }
        auth = None
        if self._secret is not None and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            auth = httpx2.BasicAuth(self._oidc.client_id, self._secret)
        elif self._secret is not None:
            form["client_secret"] = self._secret
        return await self._asked(self._http.build_request("POST", metadata.token_endpoint, data=form), auth)

    async def _verified(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of the ID token, all of which were checked."""
        decoded = await self._decoded(token)
        rules = jwt.JWTClaimsRegistry(
            leeway=LEEWAY_SECONDS,
            iss={"essential": True, "value": self._oidc.issuer},
            aud={"essential": True, "value": self._oidc.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
        )
        claims = decoded.claims
        try:
            rules.validate(claims)
        except JoseError as error:
            raise LoginRefused(f"the ID token does not hold: {error.description or error.error}") from error
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise LoginRefused("the ID token answers another login")
        audience = claims["aud"]
        if claims.get("azp", self._oidc.client_id) != self._oidc.client_id or (
            isinstance(audience, list) and len(audience) > 1 and "azp" not in claims
        ):
            raise LoginRefused("the ID token was given to another program")
        if not isinstance(claims["sub"], str) or not re.fullmatch(r"[\x20-\x7e]{1,255}", claims["sub"]):
            raise LoginRefused("the ID token names nobody")
        return claims

    async def _decoded(self, token: str) -> jwt.Token:
        keys = await self._published()
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError):
            keys = await self._published(anew=True)  # the provider may have changed its keys
        try:
            return jwt.decode(token, keys, algorithms=ALGORITHMS)
        except (JoseError, ValueError) as error:
            raise LoginRefused("the ID token is not signed by the provider") from error

    async def _published(self, *, anew: bool = False) -> KeySet:
        now = time.monotonic()
        if (
            self._keys is None
            or now - self._keys_read > METADATA_SECONDS
            or (anew and now - self._keys_read > NEW_KEYS_SECONDS)
        ):
            metadata = await self._described()
            found = await self._asked(self._http.build_request("GET", metadata.jwks_uri))
            try:
                self._keys = KeySet.import_key_set({"keys": [key for key in found["keys"] if key.get("kty") != "oct"]})
            except (JoseError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise Away("the provider's keys are not understood") from error
            self._keys_read = now
        return self._keys

    async def _more_of(self, subject: str, access_token: str) -> Mapping[str, Any]:
        """What the provider tells beside the ID token, if it is of the same person."""
        metadata = await self._described()
        if metadata.userinfo_endpoint is None:
            return {}
        headers = {"Authorization": f"Bearer {access_token}"}
        found = await self._asked(self._http.build_request("GET", metadata.userinfo_endpoint, headers=headers))
        return found if found.get("sub") == subject else {}

    async def _described(self) -> Metadata:
        if self._metadata is None or time.monotonic() > self._metadata_until:
            url = f"{self._oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
            found = await self._asked(self._http.build_request("GET", url))
            try:
                metadata = Metadata.model_validate(found)
            except ValidationError as error:
                raise Away("the provider's description is not understood") from error
            if metadata.issuer != self._oidc.issuer:
                raise Away("the provider's description is of another issuer")
            self._metadata, self._metadata_until = metadata, time.monotonic() + METADATA_SECONDS
        return self._metadata

    async def _asked(self, request: httpx2.Request, auth: httpx2.Auth | None = None) -> Mapping[str, Any]:
        """The JSON object that the provider answers with.

        Raises:
            LoginRefused: it refuses.
            Away: it does not answer, or not with one.
        """
        try:
            answer = await self._http.send(request, auth=auth, stream=True)
            try:
                body = b""
                async for piece in answer.aiter_bytes():
                    body += piece
                    if len(body) > ANSWER_BYTES_MAX:
                        raise Away("the provider's answer does not end")
            finally:
                await answer.aclose()
            if answer.status_code in (400, 401, 403):
                raise LoginRefused("the provider does not take the code")
            found = httpx2.Response(answer.status_code, content=body).json() if answer.is_success else None
        except (httpx2.HTTPError, ValueError) as error:
            raise Away("the provider cannot be reached") from error
        if not isinstance(found, dict):
            raise Away("the provider does not answer as one does")
        return found


def _address(claimed: object) -> str | None:
    """An address that could be invited, or none."""
    try:
        return spelled(EMAIL.validate_python(claimed))
    except ValidationError:
        return None


def _line(text: str) -> str:
    """A name that is safe to show."""
    return "".join(char for char in text if char.isprintable())[:200] or "somebody"
