"""What the control process counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

PASS_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """The figures of one control process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter("corral_dispatcher_passes", "Scheduling passes", registry=self.registry)
        self.pass_seconds = Histogram(
            "corral_dispatcher_pass_seconds", "Duration of a pass", buckets=PASS_BUCKETS, registry=self.registry
        )
        self.placements = Counter("corral_dispatcher_placements", "Attempts assigned", registry=self.registry)
        self.refused = Counter(
            "corral_dispatcher_refused", "Placements that the database refused", registry=self.registry
        )
        self.failed = Counter("corral_dispatcher_failed", "Jobs set aside after an error", registry=self.registry)
        self.queue_length = Gauge("corral_queue_length", "Jobs that wait", registry=self.registry)
        self.is_leader = Gauge("corral_control_is_leader", "1 while this process leads", registry=self.registry)

    def serve(self, port: int, host: str = "127.0.0.1") -> None:
        """Answer scrapes there, in a thread of its own."""
        start_http_server(port, addr=host, registry=self.registry)
