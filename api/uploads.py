"""Takes in bytes as they come, without holding them, and without holding a thread while they do not come."""

from collections.abc import AsyncIterator

import anyio
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from api.storage import Upload, Uploaded
from domain.errors import TooLarge

PIECE_BYTES = 2**20
"""Written at once."""


async def receive(request: Request, upload: Upload, silence_seconds: float) -> Uploaded:
    """Write the request's body to `upload`.

    Raises:
        TooLarge: it is larger than the upload takes.
        HTTPException: the sender fell silent or went away.
    """
    piece = bytearray()
    async for chunk in _chunks(request, silence_seconds):
        piece += chunk
        if len(piece) >= PIECE_BYTES:
            await anyio.to_thread.run_sync(upload.write, bytes(piece))
            piece.clear()
    await anyio.to_thread.run_sync(upload.write, bytes(piece))
    return await anyio.to_thread.run_sync(upload.finish)


async def receive_small(request: Request, bytes_max: int, silence_seconds: float) -> bytes:
    """The request's body, which fits in memory.

    Raises:
        TooLarge: it is larger than that.
        HTTPException: the sender fell silent or went away.
    """
    body = bytearray()
    async for chunk in _chunks(request, silence_seconds):
        body += chunk
        if len(body) > bytes_max:
            raise TooLarge(f"at most {bytes_max} bytes are taken at once")
    return bytes(body)


async def _chunks(request: Request, silence_seconds: float) -> AsyncIterator[bytes]:
    stream = aiter(request.stream())
    while True:
        try:
            with anyio.fail_after(silence_seconds):
                chunk = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise HTTPException(408, "nothing more arrived", {"Connection": "close"}) from None
        except ClientDisconnect:
            raise HTTPException(400, "the body ended early") from None
        yield chunk
