"""The door: one ASGI application, made of the settings and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from corral.contract import Problem
from fastapi import APIRouter, FastAPI

from api import problems
from api.addresses import networks
from api.bodies import BodyGuard, JsonGuard
from api.door import Door
from api.edge import Edge
from api.following import Followers
from api.logs import Logs
from api.metrics import Metrics, served
from api.oidc import Provider
from api.openapi import say_who, scopes_of
from api.rate_limits import RateLimits
from api.rates import Rates
from api.routes import (
    adjustments,
    artifacts,
    audit,
    batches,
    budget,
    docs,
    gpus,
    health,
    images,
    inputs,
    jobs,
    join_tokens,
    keys,
    ledger,
    login,
    logs,
    members,
    node,
    node_files,
    nodes,
    prices,
    quota,
    receipts,
    secrets,
    signature_rules,
    templates,
    tenants,
    usage,
    webhooks,
    whoami,
)
from api.settings import ApiSettings
from api.shown_key import KeyMemory
from api.storage import Storage
from api.submitting import Submitter
from api.transactions import Database
from hints.changes import ChangeListener
from hints.sender import Hints
from store.engine import open_engine
from store.master_keys import master_keys
from store.signing import read_keyring

RESOURCES = (
    whoami,
    jobs,
    batches,
    templates,
    logs,
    artifacts,
    inputs,
    usage,
    quota,
    budget,
    ledger,
    receipts,
    adjustments,
    images,
    gpus,
    keys,
    members,
    login,
    secrets,
    signature_rules,
    tenants,
    nodes,
    join_tokens,
    prices,
    audit,
    webhooks,
    node,
    node_files,
)


def _routes() -> APIRouter:
    router = APIRouter(responses={"default": {"model": Problem, "description": "A problem, with a stable code."}})
    for resource in RESOURCES:
        say_who(resource.router)
        router.include_router(resource.router, prefix="/v1")
    router.include_router(health.router)
    router.include_router(docs.router)
    return router


ROUTES = _routes().routes
"""They are the same in every application, and take longer to put together than all the rest of one."""
SCOPES = scopes_of(resource.router for resource in RESOURCES)


def create_app(settings: ApiSettings) -> FastAPI:
    """The application. It opens nothing until it is started; the database must be migrated by then."""
    metrics = Metrics()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with served(metrics, settings.metrics_host, settings.metrics_port):
            async with _opened(app, settings, metrics):
                yield

    app = FastAPI(
        title="Corral",
        summary="Runs untrusted GPU jobs for many tenants on shared machines.",
        version="0.1.0",
        routes=ROUTES,
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    app.state.scopes = SCOPES
    problems.install(app)
    app.add_middleware(JsonGuard)  # the last added is outermost
    app.add_middleware(Door)
    app.add_middleware(
        BodyGuard,
        bytes_max=settings.json_bytes_max,
        batch_bytes_max=settings.batch_bytes_max,
        seconds=settings.body_seconds,
    )
    app.add_middleware(Edge, metrics=metrics, trusted=networks(settings.trusted_proxies))
    return app


@asynccontextmanager
async def _opened(app: FastAPI, settings: ApiSettings, metrics: Metrics) -> AsyncIterator[None]:
    """What the routes share, from the start of the process to its end."""
    keys = master_keys(settings.secrets_key_file, settings.secrets_kms_command)
    provider = Provider(settings) if settings.oidc.issuer else None
    engine = open_engine(settings.database_url, settings.transactions_max)
    hints = Hints(settings.redis_url)
    limits = RateLimits(settings.redis_url, metrics)
    keyring = None if settings.signing_key_file is None else read_keyring(settings.signing_key_file)
    storage = await anyio.to_thread.run_sync(Storage, settings.storage_url, settings.storage_options)
    try:
        async with ChangeListener(settings.redis_url) as listener:
            app.state.settings = settings
            app.state.database = Database(engine, settings.transactions_max)
            app.state.rates = Rates(limits, settings)
            app.state.hints = hints
            app.state.key_memory = KeyMemory()
            app.state.submitter = submitter = Submitter(app.state.database, hints)
            app.state.storage = storage
            app.state.master_keys = keys
            app.state.keyring = keyring
            app.state.logs = Logs(storage, settings.log_bytes_max)
            app.state.followers = Followers(listener, settings.followers_max)
            app.state.provider = provider
            await anyio.to_thread.run_sync(hints.warm)
            yield
            await submitter.finish()
    finally:
        await limits.close()
        if provider is not None:
            await provider.close()
        hints.close()
        engine.dispose()
