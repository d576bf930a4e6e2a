"""Renews the node's token now and then, so that one that was copied is soon worth nothing.

The new token is kept before it is used, and the old one works until then: whenever this is cut short, one of the two
that may be on disk is good.
"""

import logging
import time
from dataclasses import replace
from pathlib import Path

from worker import credential as credentials
from worker.api_link import ApiFault, ApiLink
from worker.credential import Credential

log = logging.getLogger(__name__)

EVERY_S = 86_400.0
AFTER_FAULT_S = 600.0


class Renewal:
    """The token of one node."""

    def __init__(self, data_dir: Path, credential: Credential, api: ApiLink, every_s: float = EVERY_S) -> None:
        self._data_dir = data_dir
        self._credential = credential
        self._api = api
        self._every_s = every_s
        self._due_s = time.monotonic() + every_s

    def renew_if_due(self) -> bool:
        """Whether the token is another now."""
        if time.monotonic() < self._due_s:
            return False
        try:
            token = self._api.renew_token()
            renewed = replace(self._credential, token=token)
            credentials.save(self._data_dir, renewed)
        except (ApiFault, OSError) as fault:
            log.warning("the node's token is not renewed, and that is tried again: %s", fault)
            self._due_s = time.monotonic() + min(AFTER_FAULT_S, self._every_s)
            return False
        self._credential = renewed
        self._api.use_token(token)
        self._due_s = time.monotonic() + self._every_s
        return True
