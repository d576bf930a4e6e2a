"""What Prometheus is told of the API, on a port of its own that tenants do not reach."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram, start_http_server
from starlette.types import Scope

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UNMATCHED = "none"
"""In the place of a route, for paths that no route has: those are for anybody to make up."""


class Metrics:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "corral_http_requests", "Requests answered.", ("method", "route", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "corral_http_request_seconds",
            "From a request's arrival to the end of its answer.",
            ("method", "route"),
            buckets=BUCKETS,
            registry=self.registry,
        )

        self.rate_fallbacks = Counter(
            "corral_rate_limit_fallbacks", "Rates counted by this process alone.", registry=self.registry
        )
        self.rate_refusals = Counter(
            "corral_rate_limited", "Requests refused by a rate limit.", ("limit",), registry=self.registry
        )

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count one request."""
        route = getattr(scope.get("route"), "path", None)
        method = scope["method"] if route is not None else UNMATCHED
        self._requests.labels(method, route or UNMATCHED, status).inc()
        self._seconds.labels(method, route or UNMATCHED).observe(seconds)


@contextmanager
def served(metrics: Metrics, host: str, port: int | None) -> Iterator[None]:
    """Serve the numbers while the block runs, if there is a port for it."""
    if port is None:
        yield
        return
    server, thread = start_http_server(port, host, metrics.registry)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
