"""Logging in as a person: in a browser on any machine, from which a code is carried over to this terminal."""

import base64
import hashlib
import secrets

import typer
from corral.call import place
from corral.calls.identity import login_key
from corral.cli.options import PATIENCE_SECONDS
from corral.cli.output import note
from corral.client import Client
from corral.config import Settings, checked
from corral.identity import LoginCode
from httpx2 import URL

NO_KEY = "none"
"""Sent where none is needed yet."""


def log_in(url: str, tenant: str | None) -> Settings:
    """The server, and a key of the person who logs in. The code that is carried over is good for this process alone.

    Raises:
        ApiError: the server refused.
        Unreachable: there was no answer.
    """
    verifier = secrets.token_urlsafe(32)
    with Client(checked(url, NO_KEY).url, NO_KEY, patience_seconds=PATIENCE_SECONDS) as client:
        note("Open this in a browser, on any machine, and log in:")
        note(f"  {_address(client.settings.url, verifier, tenant)}")
        code = str(typer.prompt("Code", err=True)).strip()
        made = client.send(login_key(LoginCode(code=code, verifier=verifier)))
    return checked(url, made.key)


def _address(url: str, verifier: str, tenant: str | None) -> str:
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {"challenge": challenge, **({} if tenant is None else {"tenant": tenant})}
    return str(URL(f"{url}{place('login')}", params=asked))
