from lkge.serve.metrics import BUCKETS, GAUGES, Metrics
from lkge.serve.responses import Comparison, Health, Job, Quality

HEALTH = Health(
    status="ok",
    version=7,
    graph="",
    method="",
    dim=8,
    entities=5,
    relations=4,
    facts=6,
    waiting=3,
    jobs=[
        Job(id=number, status=status, accepted="", facts=1, retracted=0)
        for number, status in ((1, "failed"), (2, "learning"), (3, "waiting"))
    ],
)

FIGURES = {"facts": 30, "mrr_before": 0.5, "mrr": 0.25, "hits10_before": 0.6, "hits10": 0.4}
NOTHING = Comparison(facts=0, mrr_before=None, mrr=None, hits10_before=None, hits10=None, error=0)
QUALITY = {
    "verdict": "worse",
    "causes": ["quality"],
    "summary": "",
    "remedy": "",
    "since": 1,
    "since_baseline": {**FIGURES, "error": 0.01},
    "by_age": {},
    "drift": 0.125,
    "total_drift": 0.25,
    "reliability": None,
    **dict.fromkeys(("last_update", "touched_facts", "untouched_facts", "residue"), NOTHING),
}


def test_requests_and_latencies_are_in_the_text_format() -> None:
    metrics = Metrics(lambda: HEALTH)
    metrics.requests.labels("POST", "/predict", 200).inc(2)
    for seconds in (0.004, 99.0):
        metrics.latency.labels("/predict").observe(seconds)
    lines = metrics.text().splitlines()
    assert 'lkge_http_requests_total{method="POST",route="/predict",status="200"} 2.0' in lines
    for bound, count in ((0.0025, 0), (0.005, 1), (BUCKETS[-1], 1), ("+Inf", 2)):
        line = f'lkge_http_request_seconds_bucket{{le="{bound}",route="/predict"}} {count:.1f}'
        assert line in lines
    assert 'lkge_http_request_seconds_count{route="/predict"} 2.0' in lines


def test_gauges_follow_the_state_of_their_own_application() -> None:
    quality = Quality.model_validate(QUALITY)
    states = [
        HEALTH.model_copy(update={"quality": quality}),
        HEALTH.model_copy(update={"version": 1}),
    ]
    metrics, other = Metrics(lambda: states[0]), Metrics(lambda: states[1])
    values = dict(line.split() for line in metrics.text().splitlines() if line[:1] != "#")
    found = {name: float(values[name]) for name in GAUGES}
    assert list(found.values()) == [7, 5, 4, 6, 3, 1, 1, 0.25, 0.5, 0.4, 0.6, 0.125, 1]
    assert "\nlkge_health_worse NaN\n" in other.text()
    assert "\nlkge_held_out_mrr NaN\n" in other.text()
    states[0] = HEALTH.model_copy(update={"version": 8})
    assert "\nlkge_version 8.0\n" in metrics.text()
    assert "\nlkge_version 1.0\n" in other.text()
