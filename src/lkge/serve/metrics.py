"""Counters and a histogram, written as Prometheus reads them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of the buckets of the latency histogram."""

Labels = Mapping[str, object]
Sample = tuple[str, Labels, float]


@dataclass
class Latency:
    """How long requests took: how many in each bucket, the last for what is slower, and in all."""

    buckets: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def observe(self, seconds: float) -> None:
        """Count one request."""
        self.buckets[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds

    def samples(self, name: str, labels: Labels) -> Iterable[Sample]:
        """The cumulative buckets, the sum and the count."""
        below = 0
        for bound, count in zip((*SECONDS, "+Inf"), self.buckets, strict=True):
            below += count
            yield f"{name}_bucket", {**labels, "le": bound}, below
        yield f"{name}_sum", labels, self.total
        yield f"{name}_count", labels, below


@dataclass
class Metrics:
    """What has happened since the service started."""

    requests: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    latency: dict[str, Latency] = field(default_factory=dict)
    swaps: int = 0
    failures: int = 0

    def count(self, method: str, route: str, status: int) -> None:
        """One more answer."""
        self.requests[method, route, status] += 1

    def time(self, route: str, seconds: float) -> None:
        """How long it took."""
        self.latency.setdefault(route, Latency()).observe(seconds)

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it, and the present state: name → (meaning, value)."""
        families = [
            _family("lkge_http_requests_total", "counter", "Answers.", self._request_samples()),
            _family(
                "lkge_http_request_seconds",
                "histogram",
                "Seconds from a request's first byte to its answer's last.",
                self._latency_samples(),
            ),
            _single("lkge_swaps_total", "counter", "Versions swapped in.", self.swaps),
            _single("lkge_failures_total", "counter", "Learners that failed.", self.failures),
            *(_single(name, "gauge", *rest) for name, rest in gauges.items()),
        ]
        return "".join(families)

    def _request_samples(self) -> Iterable[Sample]:
        for (method, route, status), count in sorted(self.requests.items()):
            labels = {"method": method, "route": route, "status": status}
            yield "lkge_http_requests_total", labels, count

    def _latency_samples(self) -> Iterable[Sample]:
        for route, latency in sorted(self.latency.items()):
            yield from latency.samples("lkge_http_request_seconds", {"route": route})


def _single(name: str, kind: str, meaning: str, value: float) -> str:
    return _family(name, kind, meaning, [(name, {}, value)])


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> str:
    head = f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"
    return head + "".join(f"{each}{_written(labels)} {value}\n" for each, labels, value in samples)


def _written(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
