"""A small OpenID provider: a real server, with real keys, that lets in whom the test says; and lies where told to."""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey

CLIENT_ID, CLIENT_SECRET = "corral", "a-secret-of-the-client"
RSA = RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig"})
EC = ECKey.generate_key("P-256", {"kid": "ec-1", "use": "sig"})
STRANGERS = RSAKey.generate_key(2048, {"kid": "rsa-1", "use": "sig"})
Signer = Callable[[dict[str, Any]], str]


def by_rsa(claims: dict[str, Any]) -> str:
    """Signed as most providers sign."""
    return jwt.encode({"alg": "RS256", "kid": "rsa-1"}, claims, RSA)


def by_ec(claims: dict[str, Any]) -> str:
    """Signed on a curve."""
    return jwt.encode({"alg": "ES256", "kid": "ec-1"}, claims, EC)


class SmallProvider:
    """Who logs in, and how its answers are made."""

    def __init__(self) -> None:
        self.issuer = ""
        self.person: dict[str, Any] = {
            "sub": "ada", "name": "Ada", "email": "ada@example.org", "email_verified": True
        }  # fmt: skip
        self.changed: dict[str, Any] = {}
        """Claims of the ID token that are said otherwise; None leaves one out."""
        self.sign: Signer = by_rsa
        self.refuses = False
        self.codes: dict[str, dict[str, str]] = {}
        """Asked with, by code; a code is good once."""

    def authorized(self, asked: dict[str, str]) -> str:
        """Where the browser goes after the person has agreed."""
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        if self.refuses:
            return f"{asked['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': asked['state']})}"
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def traded(self, form: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """The answer to a code; None for one that is not good, or not shown by who asked."""
        asked = self.codes.pop(form.get("code", ""), None)
        shown = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if asked is None or shown != f"{CLIENT_ID}:{CLIENT_SECRET}" or challenge != asked["code_challenge"]:
            return None
        if form["redirect_uri"] != asked["redirect_uri"]:
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 300, "nonce": asked["nonce"], **self.person
        }  # fmt: skip
        claims = {name: value for name, value in {**claims, **self.changed}.items() if value is not None}
        return {"token_type": "Bearer", "access_token": "opaque", "id_token": self.sign(claims)}

    def description(self) -> dict[str, Any]:
        """The metadata."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/me",
        }


@contextmanager
def a_provider() -> Iterator[SmallProvider]:
    """One that answers on a port of its own."""
    provider = SmallProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
                self.send_response(302)
                self.send_header("Location", provider.authorized(asked))
                self.end_headers()
                return
            answers: dict[str, Callable[[], object]] = {
                "/.well-known/openid-configuration": provider.description,
                "/keys": lambda: {"keys": [RSA.as_dict(private=False), EC.as_dict(private=False)]},
                "/me": lambda: provider.person,
            }
            self._answer(200, answers[parts.path]())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            answer = provider.traded(form, self.headers.get("Authorization", ""))
            self._answer(400 if answer is None else 200, answer or {"error": "invalid_grant"})

        def _answer(self, status: int, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.issuer = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
