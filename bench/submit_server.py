"""The API as it is served, and beside it one bare route: an INSERT by SQLAlchemy core for each request.

`python -m bench.submit_server PORT`, with the API's settings in the environment. Only the benchmark mounts that route.
"""

import sys
import uuid
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from sqlalchemy import JSON, BigInteger, Column, MetaData, String, Table, insert

from api.app import create_app
from api.connection import BoundedConnection
from api.settings import ApiSettings
from api.transactions import Database
from corrald.main import begin_service

FLOOR = "/floor"
ROWS = Table(
    "bench_floor",
    MetaData(),
    Column("id", String, primary_key=True),
    Column("tenant_id", String, nullable=False, index=True),
    Column("spec", JSON, nullable=False),
    Column("submitted_us", BigInteger, nullable=False),
)
_ADD = insert(ROWS)


def with_floor(corral: FastAPI) -> FastAPI:
    """The application with the floor's route beside its own, behind the same layers: the bounded connection, the edge
    that guards and counts answers, and the guard that reads and checks bodies. What the floor does without is all that
    makes a submission one: a key, a limit, a body's validation, quotas, events, the audit, a kept answer.
    """

    async def insert_one(request: Request) -> dict[str, str]:
        """One row, committed before the answer, in the transaction that a route of Corral would have."""
        database: Database = request.app.state.database
        spec: dict[str, Any] = await request.json()
        row: dict[str, Any] = {"id": uuid.uuid4().hex, "tenant_id": "bench", "spec": spec, "submitted_us": 0}
        await database.write(lambda session: session.connection().execute(_ADD, row))
        return {"id": str(row["id"])}

    corral.add_api_route(FLOOR, insert_one, methods=["POST"], status_code=201)
    return corral


def main() -> None:
    """Serve until stopped, as `corrald api` does."""
    begin_service()
    uvicorn.run(
        with_floor(create_app(ApiSettings())),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        http=BoundedConnection,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )


if __name__ == "__main__":
    main()
