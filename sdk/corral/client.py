"""The blocking client."""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx2
from corral.answers import problem_of
from corral.batches import TemplatedJob
from corral.call import Call
from corral.calls import jobs as calls
from corral.calls import ledger as ledger_calls
from corral.config import Settings, find_settings
from corral.contract import Page
from corral.downloads import Incoming
from corral.errors import ApiError
from corral.following import Following, LogEvent
from corral.handles import Job
from corral.input_tar import pack
from corral.jobs import ArtifactView, InputView, JobSpec, JobView
from corral.ledger import UsageFormat
from corral.operations import Operations, Sender
from corral.retries import retry_rule, stop_after, wait_seconds
from corral.sending import (
    CHUNK_BYTES,
    PATIENCE_SECONDS,
    TERMINAL_STATES,
    TIMEOUT,
    headers_of,
    poll_seconds,
    read_answer,
    spec_of,
    trust,
    unreachable,
)
from tenacity import Retrying

T = TypeVar("T")


class Client(Operations, Sender):
    """Talks to one Corral server.

    Requests are sent again on lost connections, 429, 502, 503 and 504, for `patience_seconds` in all; one that
    creates something carries a key by which the server makes it once.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Without `url` and `key`: CORRAL_URL and CORRAL_KEY, or the file that `corral login` wrote.

        Raises:
            NotConfigured: no server or no key is known.
        """
        self.settings: Settings = find_settings(url, key)
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._http = httpx2.Client(
            base_url=self.settings.url,
            headers=headers_of(self.settings),
            timeout=TIMEOUT,
            transport=transport,
            verify=trust(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send it, again where that may help, and return what the answer says.

        Raises:
            ApiError: the server refused.
            Unreachable: there was no answer.
        """
        return self._patiently(call, lambda: read_answer(call, self._exchange(call)))

    def each(self, call: Call[Page[T]]) -> Iterator[T]:
        """Every item of a list, page after page, as they are asked for."""
        page = self.send(call)
        yield from page.items
        while page.next is not None:
            page = self.send(call.at_cursor(page.next))
            yield from page.items

    def submit(
        self,
        spec: JobSpec | None = None,
        *,
        template: str | None = None,
        tenant_id: str | None = None,
        **fields: Any,
    ) -> Job:
        """Queue a job, given whole or by the fields of `JobSpec`; with a template, by what differs from it."""
        if template is not None:
            return Job(self, self.submit_templated(TemplatedJob(template=template, **fields), tenant_id=tenant_id))
        return Job(self, self.submit_spec(spec_of(spec, fields), tenant_id=tenant_id))

    def job(self, job_id: str) -> Job:
        """A job in hand."""
        return Job(self, self.job_view(job_id))

    def wait(self, job_id: str, timeout: float | None = None) -> JobView:
        """Return once the job is over.

        Raises:
            TimeoutError: it is not over after `timeout` seconds; it goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in poll_seconds():
            view = self.job_view(job_id)
            if view.state in TERMINAL_STATES:
                return view
            if deadline is not None and time.monotonic() + pause > deadline:
                break
            self._sleep(pause)
        raise TimeoutError(f"{job_id} is {view.state} after {timeout} seconds")

    def log(self, job_id: str, *, attempt: int | None = None, since: int = 0) -> Iterator[bytes]:
        """An attempt's log (the latest one's by default) as it stands, byte for byte, from `since` on."""
        part = self.log_part(job_id, attempt=attempt, since=since)
        while part.data:
            yield part.data
            part = self.log_part(job_id, attempt=part.attempt, since=part.until)

    def follow(self, job_id: str) -> Iterator[LogEvent]:
        """What the job writes and what becomes of it, live and from the start, until it is over."""
        following = Following(job_id)
        while not following.is_over:
            error: ApiError | httpx2.TransportError | None = None
            try:
                yield from self._events(following)
            except (ApiError, httpx2.TransportError) as caught:
                error = caught
            if not following.is_over:
                self._sleep(following.pause_seconds(error))

    def upload_input(self, source: Path | str, *, tenant_id: str | None = None) -> InputView:
        """Store a directory (or one file) as an input; the same content always has the same address.

        Raises:
            InputRefused: it holds something that is neither a file nor a directory.
        """
        with tempfile.TemporaryDirectory(prefix="corral-input-") as scratch:
            archive = Path(scratch, "input.tar")
            with archive.open("wb") as stream:
                pack(Path(source), stream)
            return self.upload_tar(archive, tenant_id=tenant_id)

    def download(self, job_id: str, artifact: ArtifactView, directory: Path) -> Path:
        """Write an artifact below `directory`, under its own name, once its SHA-256 proved right.

        Raises:
            UnsafeDownload: its name leads outside of `directory`, or the bytes are not those recorded.
        """
        call = calls.artifact_content(job_id, artifact.name)
        return self._patiently(call, lambda: self._download(call, Incoming(artifact, directory)))

    def usage_export(self, format: UsageFormat, group_by: Sequence[str] = (), **asked: Any) -> Iterator[bytes]:
        """Usage as `csv`, or the ledger's lines as `focus` rows, piece by piece; the rest as for `usage`."""
        return self._pieces(ledger_calls.usage_export(format, group_by, **asked))

    def chain_export(self, *, tenant_id: str | None = None) -> Iterator[bytes]:
        """Every entry of a tenant's chain, a line of JSON each, piece by piece."""
        return self._pieces(ledger_calls.chain_export(tenant_id=tenant_id))

    def _pieces(self, call: Call[Any]) -> Iterator[bytes]:
        with self._stream(call) as response:
            yield from response.iter_bytes(CHUNK_BYTES)

    def _patiently(self, call: Call[Any], exchange: Callable[[], T]) -> T:
        retrying = Retrying(
            sleep=self._sleep,
            stop=stop_after(self._patience_seconds),
            wait=wait_seconds,
            retry=retry_rule(call),
            reraise=True,
        )
        try:
            return retrying(exchange)
        except httpx2.TransportError as error:
            raise unreachable(self.settings, error) from error

    def _exchange(self, call: Call[Any]) -> httpx2.Response:
        if isinstance(call.body, bytes):
            return self._http.request(
                call.method, call.path, params=call.params, headers=call.headers, content=call.body or None
            )
        with call.body.open("rb") as stream:
            headers = {**call.headers, "Content-Length": str(call.body.stat().st_size)}
            return self._http.request(call.method, call.path, params=call.params, headers=headers, content=stream)

    def _download(self, call: Call[Any], incoming: Incoming) -> Path:
        with self._stream(call) as response, incoming:
            for chunk in response.iter_bytes(CHUNK_BYTES):
                incoming.write(chunk)
        return incoming.target

    def _events(self, following: Following) -> Iterator[LogEvent]:
        with self._stream(following.call()) as response:
            for said in httpx2.EventSource(response):
                if (event := following.take(said)) is not None:
                    yield event

    @contextmanager
    def _stream(self, call: Call[Any]) -> Iterator[httpx2.Response]:
        with self._http.stream(call.method, call.path, params=call.params, headers=call.headers) as response:
            if not response.is_success:
                response.read()
                raise problem_of(response)
            yield response
