"""The node's way to the API: one kept-alive connection pool, its own token, and five answers that mean something.

ApiFault
├── Away       no answer, or the server's own trouble: says nothing of the job; try again later
├── Stale      a newer attempt holds the right to write: drop what is held for this fence
├── Unknown    the API does not know the attempt: it may be a restored database, so nothing healthy dies of it
├── Damaged    an input came that is not what its hash says
└── Refused    it will not be different next time
    └── LogGap the log's next segment begins elsewhere
"""

import base64
import hashlib
import os
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
from corral.contract import Problem
from corral.jobs import ArtifactView
from corral.node import (
    AttemptSecrets,
    AttemptStanding,
    Claim,
    Ended,
    Heartbeat,
    HeartbeatAnswer,
    ImageFindings,
    LogAnswer,
    NodeToken,
    Order,
    Progress,
    Registered,
    Registration,
    SecretsAsked,
    Started,
)
from pydantic import BaseModel, ValidationError

from domain.ids import AttemptId, Fence

V = TypeVar("V", bound=BaseModel)

CHUNK: Final = 1 << 20
TRY_AGAIN: Final = frozenset({401, 403, 408, 425, 429})
"""Not a word about the job either: a revoked token may be an admin's slip."""
TIMEOUT: Final = httpx2.Timeout(10.0, connect=3.0)
BULK_TIMEOUT: Final = httpx2.Timeout(60.0, connect=3.0)
"""For each single read or write of an upload or a download, not for the whole."""

TOO_LARGE: Final = Problem(
    type="about:blank", title="Too large", status=413, code="too_large", detail="it is larger than this node takes"
)


class ApiFault(Exception):
    """The API did not do what was asked."""


class Away(ApiFault):
    """No answer, or none that counts; with the status of the latter."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class Stale(ApiFault):
    """Another attempt of the job, or none, may write now."""


class Unknown(ApiFault):
    """There is no such attempt, as far as the API knows."""


class Damaged(ApiFault):
    """What came is not what was asked for."""


class Refused(ApiFault):
    """The request was turned down for good."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.status = problem.status
        self.code = problem.code


class LogGap(Refused):
    """The server holds less, or more, than the segment's offset says."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.size_bytes = int(problem.errors[0]["size_bytes"])


class ApiLink:
    """Every call is safe to repeat. Used by many threads at once."""

    def __init__(self, base_url: str, token: str, ca_file: Path | None = None) -> None:
        """`ca_file` None: whom the system trusts may vouch for the API.

        Raises:
            OSError: the file can't be read, or holds no certificate.
        """
        verify = True if ca_file is None else ssl.create_default_context(cafile=ca_file)
        limits = httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60.0)
        self._client = httpx2.Client(
            base_url=f"{base_url.rstrip('/')}/v1/node",
            headers={"Authorization": f"Bearer {token}"},
            timeout=TIMEOUT,
            limits=limits,
            transport=httpx2.HTTPTransport(verify=verify, limits=limits, retries=1),
            trust_env=False,
        )

    def use_token(self, token: str) -> None:
        """Go on with the node's own token once it has one."""
        self._client.headers["Authorization"] = f"Bearer {token}"

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def register(self, body: Registration) -> Registered:
        """Join, or say what the node is now."""
        return self._post("/register", body, Registered)

    def heartbeat(self, body: Heartbeat) -> HeartbeatAnswer:
        """Give a sign of life; get a verdict for each sandbox named."""
        return self._post("/heartbeat", body, HeartbeatAnswer)

    def image_findings(self, body: ImageFindings) -> None:
        """What was found in an image that this node was asked to look at."""
        headers = {"Content-Type": "application/json"}
        self._send("POST", "/images/findings", content=body.model_dump_json().encode(), headers=headers)

    def renew_token(self) -> str:
        """A new token for this node; the one in use works until the new one is first used."""
        return _read(self._send("POST", "/token"), NodeToken).token

    def claim(self, attempt_id: AttemptId, fence: Fence) -> Order:
        """Take an attempt that is assigned to this node."""
        return self._post(f"/attempts/{attempt_id}/claim", Claim(fence=fence), Order)

    def secrets(self, attempt_id: AttemptId, fence: Fence) -> Mapping[str, bytes]:
        """The values of the secrets that the attempt's job names, as they are now."""
        answer = self._post(f"/attempts/{attempt_id}/secrets", SecretsAsked(fence=fence), AttemptSecrets)
        return {each.name: base64.b64decode(each.value) for each in answer.secrets}

    def started(self, attempt_id: AttemptId, body: Started) -> AttemptStanding:
        """The gate was opened."""
        return self._post(f"/attempts/{attempt_id}/started", body, AttemptStanding)

    def progress(self, attempt_id: AttemptId, body: Progress) -> AttemptStanding:
        """Something worth telling meanwhile."""
        return self._post(f"/attempts/{attempt_id}/progress", body, AttemptStanding)

    def ended(self, attempt_id: AttemptId, body: Ended) -> AttemptStanding:
        """The attempt is over, and nothing of it is left here."""
        return self._post(f"/attempts/{attempt_id}/ended", body, AttemptStanding)

    def append_log(self, attempt_id: AttemptId, fence: Fence, offset: int, data: bytes) -> int:
        """Store a segment; the size that the server holds then.

        Raises:
            LogGap: the segment should begin elsewhere.
        """
        params = {"fence": fence, "offset": offset}
        answer = self._send("POST", f"/attempts/{attempt_id}/logs", params=params, content=data)
        stored = _read(answer, LogAnswer)
        return stored.size_bytes

    def put_artifact(self, attempt_id: AttemptId, fence: Fence, name: str, fd: int, size_bytes: int) -> ArtifactView:
        """Store one file, read from the descriptor: once for its hash, once for its content."""
        params = {"fence": fence, "name": name, "sha256": _hash_of(fd, size_bytes)}
        headers = {"Content-Length": str(size_bytes), "Content-Type": "application/octet-stream"}
        content = _pieces(fd, size_bytes)
        path = f"/attempts/{attempt_id}/artifacts"
        answer = self._send("POST", path, params=params, headers=headers, content=content, timeout=BULK_TIMEOUT)
        return _read(answer, ArtifactView)

    def download_input(self, sha256: str, attempt_id: AttemptId, into: Path, bytes_max: int) -> None:
        """Write an input to a new file, checked against its hash.

        Raises:
            Damaged: it is not what the hash says; another try may bring it.
            Refused: also when it is larger than `bytes_max`.
        """
        digest = hashlib.sha256()
        params = {"attempt_id": attempt_id}
        request = self._client.build_request("GET", f"/inputs/{sha256}", params=params, timeout=BULK_TIMEOUT)
        with into.open("wb") as file:
            try:
                answer = self._client.send(request, stream=True)
                try:
                    if answer.status_code != 200:
                        answer.read()
                        _raise_for(answer)
                    for piece in answer.iter_bytes(CHUNK):
                        bytes_max -= len(piece)
                        if bytes_max < 0:
                            raise Refused(TOO_LARGE)
                        digest.update(piece)
                        file.write(piece)
                finally:
                    answer.close()
            except httpx2.HTTPError as error:
                raise Away(str(error) or type(error).__name__) from error
        if f"sha256:{digest.hexdigest()}" != sha256:
            raise Damaged("an input came damaged")

    def _post(self, path: str, body: BaseModel, view: type[V]) -> V:
        headers = {"Content-Type": "application/json"}
        return _read(self._send("POST", path, content=body.model_dump_json().encode(), headers=headers), view)

    def _send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        try:
            answer = self._client.request(method, path, **options)
        except httpx2.HTTPError as error:
            raise Away(str(error) or type(error).__name__) from error
        if answer.is_success:
            return answer
        return _raise_for(answer)


def _raise_for(answer: httpx2.Response) -> httpx2.Response:
    """Say which kind of refusal it is. An answer that is no problem of ours came from something in between."""
    status = answer.status_code
    if status >= 500 or status in TRY_AGAIN:
        raise Away(f"the API answers {status}", status)
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValidationError:
        raise Away(f"something answers {status} in the API's place") from None
    if problem.code == "stale_fence":
        raise Stale(problem.detail)
    if problem.code == "not_found":
        raise Unknown(problem.detail)
    if problem.code == "log_gap":
        raise LogGap(problem)
    raise Refused(problem)


def _read(answer: httpx2.Response, view: type[V]) -> V:
    try:
        return view.model_validate_json(answer.content)
    except ValidationError as error:
        raise Away(f"the API's answer is not understood: {error.error_count()} errors") from None


def _hash_of(fd: int, size_bytes: int) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(fd, size_bytes):
        digest.update(piece)
    return f"sha256:{digest.hexdigest()}"


def _pieces(fd: int, size_bytes: int) -> Iterator[bytes]:
    """The first `size_bytes` of a file; fewer if it is shorter, which the declared length then gives away."""
    offset = 0
    while offset < size_bytes:
        piece = os.pread(fd, min(CHUNK, size_bytes - offset), offset)
        if not piece:
            return
        yield piece
        offset += len(piece)
