"""Prometheus metrics of one application, and the middleware that records requests."""

import logging
import math
import time
from collections.abc import Callable

import prometheus_client as prometheus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lkge.serve.errors import HTTPMiddleware, to_problem
from lkge.serve.limits import is_stream
from lkge.serve.schemas import Health

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the latency histogram, in seconds."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
OTHER = "other"
"""The label of all methods that are not in `METHODS`, and of all paths without a route."""


def _worse(health: Health) -> float:
    if health.quality is None or health.quality.verdict == "unknown":
        return math.nan
    return float(health.quality.verdict == "worse")


def _figure(health: Health, name: str) -> float:
    """A figure of the comparison with the baseline; nan if it is unknown."""
    value = None if health.quality is None else getattr(health.quality.since_baseline, name)
    return math.nan if value is None else float(value)


def _drift(health: Health) -> float:
    drift = None if health.quality is None else health.quality.drift
    return math.nan if drift is None else drift


GAUGES: dict[str, tuple[str, Callable[[Health], float]]] = {
    "lkge_version": ("Active version.", lambda health: health.version),
    "lkge_entities": ("Entities in the active version.", lambda health: health.entities),
    "lkge_relations": ("Relations in the active version.", lambda health: health.relations),
    "lkge_facts": ("Known facts in the active version.", lambda health: health.facts),
    "lkge_batches_waiting": ("Batches not learned yet.", lambda health: health.waiting),
    "lkge_jobs_learning": ("Batches being learned.", lambda health: _count(health, "learning")),
    "lkge_health_worse": (
        "1 if held-out facts are worse than their baseline, 0 if not, NaN if unknown.",
        _worse,
    ),
    "lkge_held_out_mrr": (
        "MRR of older held-out facts.",
        lambda health: _figure(health, "mrr"),
    ),
    "lkge_held_out_mrr_baseline": (
        "Their MRR in the baseline.",
        lambda health: _figure(health, "mrr_before"),
    ),
    "lkge_held_out_hits10": (
        "Hits@10 of older held-out facts.",
        lambda health: _figure(health, "hits10"),
    ),
    "lkge_held_out_hits10_baseline": (
        "Their Hits@10 in the baseline.",
        lambda health: _figure(health, "hits10_before"),
    ),
    "lkge_drift": ("Drift of the active version.", _drift),
    "lkge_jobs_failed": ("Failed batches to retry.", lambda health: _count(health, "failed")),
}
"""Name → (help text, value)."""


def _count(health: Health, status: str) -> int:
    return sum(job.status == status for job in health.jobs)


class Metrics:
    """Counters since the start, and gauges of the state that `health` returns at each scrape."""

    def __init__(self, health: Callable[[], Health]) -> None:
        registry = self._registry = prometheus.CollectorRegistry()
        labels = ["method", "route", "status"]
        self.requests = prometheus.Counter(
            "lkge_http_requests", "HTTP responses.", labels, registry=registry
        )
        self.latency = prometheus.Histogram(
            "lkge_http_request_seconds",
            "Seconds from the first byte of a request to the last byte of its response.",
            ["route"],
            buckets=BUCKETS,
            registry=registry,
        )
        self.swaps = prometheus.Counter("lkge_swaps", "Activated versions.", registry=registry)
        self.failures = prometheus.Counter("lkge_failures", "Failed learners.", registry=registry)
        for name, (help_text, value) in GAUGES.items():
            gauge = prometheus.Gauge(name, help_text, registry=registry)
            gauge.set_function(lambda value=value: value(health()))  # type: ignore[misc]

    def text(self) -> str:
        """All metrics in the text format 0.0.4."""
        return prometheus.generate_latest(self._registry).decode()


class RequestMetrics(HTTPMiddleware):
    """Counts and times each response. An unexpected error is logged and becomes status 500."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        super().__init__(app)
        self._metrics = metrics

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 0

        async def record_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, record_status)
        except Exception as error:
            logging.getLogger("lkge.serve").exception("%s %s", scope["method"], scope["path"])
            if not status:
                await to_problem(error).response()(scope, receive, record_status)
        finally:
            route = getattr(scope.get("route"), "path", OTHER)
            method = scope["method"] if scope["method"] in METHODS else OTHER
            self._metrics.requests.labels(method, route, status).inc()
            if not is_stream(scope["path"]):
                self._metrics.latency.labels(route).observe(time.perf_counter() - started)
