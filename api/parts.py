"""What the routes of one process share, beside the database."""

from typing import Annotated

from fastapi import Depends, Request

from api.logs import Logs
from api.settings import ApiSettings
from api.storage import Storage
from domain.errors import NoSigningKey
from store.sealing import MasterKeys
from store.signing import Keyring


async def _settings(request: Request) -> ApiSettings:
    found: ApiSettings = request.app.state.settings
    return found


async def _scopes(request: Request) -> frozenset[str]:
    found: frozenset[str] = request.app.state.scopes
    return found


async def _storage(request: Request) -> Storage:
    found: Storage = request.app.state.storage
    return found


async def _logs(request: Request) -> Logs:
    found: Logs = request.app.state.logs
    return found


async def _master_keys(request: Request) -> MasterKeys:
    found: MasterKeys = request.app.state.master_keys
    return found


async def _keyring(request: Request) -> Keyring:
    found: Keyring | None = request.app.state.keyring
    if found is None:
        raise NoSigningKey
    return found


AppSettings = Annotated[ApiSettings, Depends(_settings)]
AppStorage = Annotated[Storage, Depends(_storage)]
AppLogs = Annotated[Logs, Depends(_logs)]
AppMasterKeys = Annotated[MasterKeys, Depends(_master_keys)]
AppKeyring = Annotated[Keyring, Depends(_keyring)]
"""The keys that sign; a route that asks for them is refused where there are none."""
AppScopes = Annotated[frozenset[str], Depends(_scopes)]
"""Every scope that a key can be given."""
