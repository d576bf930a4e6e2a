"""What the routes of one process share, beside the database."""

from typing import Annotated

from fastapi import Depends, Request

from api.logs import Logs
from api.settings import ApiSettings
from api.storage import Storage
from store.sealing import MasterKeys


def _settings(request: Request) -> ApiSettings:
    found: ApiSettings = request.app.state.settings
    return found


def _storage(request: Request) -> Storage:
    found: Storage = request.app.state.storage
    return found


def _logs(request: Request) -> Logs:
    found: Logs = request.app.state.logs
    return found


def _master_keys(request: Request) -> MasterKeys:
    found: MasterKeys = request.app.state.master_keys
    return found


AppSettings = Annotated[ApiSettings, Depends(_settings)]
AppStorage = Annotated[Storage, Depends(_storage)]
AppLogs = Annotated[Logs, Depends(_logs)]
AppMasterKeys = Annotated[MasterKeys, Depends(_master_keys)]
