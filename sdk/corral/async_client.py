"""The asynchronous client: the same calls, awaited."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
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
from corral.input_tar import pack
from corral.jobs import ArtifactView, InputView, JobSpec, JobView
from corral.ledger import UsageFormat
from corral.operations import AsyncSender, Operations
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
from tenacity import AsyncRetrying

T = TypeVar("T")


class AsyncClient(Operations, AsyncSender):
    """Talks to one Corral server. Where `Client` gives a `Job`, this gives its view; methods take the job's id."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """As `Client`."""
        self.settings: Settings = find_settings(url, key)
        self._patience_seconds = patience_seconds
        self._sleep = sleep
        self._http = httpx2.AsyncClient(
            base_url=self.settings.url,
            headers=headers_of(self.settings),
            timeout=TIMEOUT,
            transport=transport,
            verify=trust(),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send it, again where that may help, and return what the answer says.

        Raises:
            ApiError: the server refused.
            Unreachable: there was no answer.
        """

        async def exchange() -> T:
            return read_answer(call, await self._exchange(call))

        return await self._patiently(call, exchange)

    async def each(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Every item of a list, page after page, as they are asked for."""
        page = await self.send(call)
        for item in page.items:
            yield item
        while page.next is not None:
            page = await self.send(call.at_cursor(page.next))
            for item in page.items:
                yield item

    async def submit(
        self,
        spec: JobSpec | None = None,
        *,
        template: str | None = None,
        tenant_id: str | None = None,
        **fields: Any,
    ) -> JobView:
        """Queue a job, given whole or by the fields of `JobSpec`; with a template, by what differs from it."""
        if template is not None:
            return await self.submit_templated(TemplatedJob(template=template, **fields), tenant_id=tenant_id)
        return await self.submit_spec(spec_of(spec, fields), tenant_id=tenant_id)

    async def wait(self, job_id: str, timeout: float | None = None) -> JobView:
        """Return once the job is over.

        Raises:
            TimeoutError: it is not over after `timeout` seconds; it goes on.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        for pause in poll_seconds():
            view = await self.job_view(job_id)
            if view.state in TERMINAL_STATES:
                return view
            if deadline is not None and time.monotonic() + pause > deadline:
                break
            await self._sleep(pause)
        raise TimeoutError(f"{job_id} is {view.state} after {timeout} seconds")

    async def log(self, job_id: str, *, attempt: int | None = None, since: int = 0) -> AsyncIterator[bytes]:
        """An attempt's log (the latest one's by default) as it stands, byte for byte, from `since` on."""
        part = await self.log_part(job_id, attempt=attempt, since=since)
        while part.data:
            yield part.data
            part = await self.log_part(job_id, attempt=part.attempt, since=part.until)

    async def follow(self, job_id: str) -> AsyncIterator[LogEvent]:
        """What the job writes and what becomes of it, live and from the start, until it is over."""
        following = Following(job_id)
        while not following.is_over:
            error: ApiError | httpx2.TransportError | None = None
            try:
                async with self._stream(following.call()) as response:
                    async for said in httpx2.EventSource(response):
                        if (event := following.take(said)) is not None:
                            yield event
            except (ApiError, httpx2.TransportError) as caught:
                error = caught
            if not following.is_over:
                await self._sleep(following.pause_seconds(error))

    async def upload_input(self, source: Path | str, *, tenant_id: str | None = None) -> InputView:
        """Store a directory (or one file) as an input; the same content always has the same address.

        Raises:
            InputRefused: it holds something that is neither a file nor a directory.
        """
        with tempfile.TemporaryDirectory(prefix="corral-input-") as scratch:
            archive = Path(scratch, "input.tar")
            await asyncio.to_thread(_pack_into, Path(source), archive)
            return await self.upload_tar(archive, tenant_id=tenant_id)

    async def download(self, job_id: str, artifact: ArtifactView, directory: Path) -> Path:
        """Write an artifact below `directory`, under its own name, once its SHA-256 proved right.

        Raises:
            UnsafeDownload: its name leads outside of `directory`, or the bytes are not those recorded.
        """
        call = calls.artifact_content(job_id, artifact.name)

        async def exchange() -> Path:
            incoming = Incoming(artifact, directory)
            async with self._stream(call) as response:
                with incoming:
                    async for chunk in response.aiter_bytes(CHUNK_BYTES):
                        incoming.write(chunk)
            return incoming.target

        return await self._patiently(call, exchange)

    def usage_export(self, format: UsageFormat, group_by: Sequence[str] = (), **asked: Any) -> AsyncIterator[bytes]:
        """Usage as `csv`, or the ledger's lines as `focus` rows, piece by piece; the rest as for `usage`."""
        return self._pieces(ledger_calls.usage_export(format, group_by, **asked))

    def chain_export(self, *, tenant_id: str | None = None) -> AsyncIterator[bytes]:
        """Every entry of a tenant's chain, a line of JSON each, piece by piece."""
        return self._pieces(ledger_calls.chain_export(tenant_id=tenant_id))

    async def _pieces(self, call: Call[Any]) -> AsyncIterator[bytes]:
        async with self._stream(call) as response:
            async for piece in response.aiter_bytes(CHUNK_BYTES):
                yield piece

    async def _patiently(self, call: Call[Any], exchange: Callable[[], Awaitable[T]]) -> T:
        retrying = AsyncRetrying(
            sleep=self._sleep,
            stop=stop_after(self._patience_seconds),
            wait=wait_seconds,
            retry=retry_rule(call),
            reraise=True,
        )
        try:
            return await retrying(exchange)
        except httpx2.TransportError as error:
            raise unreachable(self.settings, error) from error

    async def _exchange(self, call: Call[Any]) -> httpx2.Response:
        headers = dict(call.headers)
        content: bytes | AsyncIterator[bytes] | None = call.body or None if isinstance(call.body, bytes) else None
        if isinstance(call.body, Path):
            headers["Content-Length"] = str(call.body.stat().st_size)
            content = _chunks(call.body)
        return await self._http.request(call.method, call.path, params=call.params, headers=headers, content=content)

    @asynccontextmanager
    async def _stream(self, call: Call[Any]) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream(call.method, call.path, params=call.params, headers=call.headers) as response:
            if not response.is_success:
                await response.aread()
                raise problem_of(response)
            yield response


def _pack_into(source: Path, archive: Path) -> None:
    with archive.open("wb") as stream:
        pack(source, stream)


async def _chunks(file: Path) -> AsyncIterator[bytes]:
    with file.open("rb") as stream:
        while chunk := await asyncio.to_thread(stream.read, CHUNK_BYTES):
            yield chunk
