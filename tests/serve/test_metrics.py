from __future__ import annotations

from lkge.serve.metrics import SECONDS, Metrics


def test_requests_and_latencies_are_written_for_prometheus() -> None:
    metrics = Metrics()
    metrics.count("POST", "/predict", 200)
    metrics.count("POST", "/predict", 200)
    metrics.time("/predict", 0.004)
    metrics.time("/predict", 99.0)
    lines = metrics.text({"lkge_version": ("The version.", 7)}).splitlines()
    assert 'lkge_http_requests_total{method="POST",route="/predict",status="200"} 2' in lines
    assert 'lkge_http_request_seconds_bucket{route="/predict",le="0.0025"} 0' in lines
    assert 'lkge_http_request_seconds_bucket{route="/predict",le="0.005"} 1' in lines
    assert f'lkge_http_request_seconds_bucket{{route="/predict",le="{SECONDS[-1]}"}} 1' in lines
    assert 'lkge_http_request_seconds_bucket{route="/predict",le="+Inf"} 2' in lines
    assert 'lkge_http_request_seconds_count{route="/predict"} 2' in lines
    assert lines[-3:] == [
        "# HELP lkge_version The version.",
        "# TYPE lkge_version gauge",
        "lkge_version 7",
    ]


def test_labels_are_escaped() -> None:
    metrics = Metrics()
    metrics.count("GET", 'a"b\\c\nd', 404)
    assert r'route="a\"b\\c\nd"' in metrics.text({})
