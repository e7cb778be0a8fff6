"""Is it alive, is it ready, and what do the counters say. Counted from our own records, never from memory."""

import time
from collections.abc import Iterable

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel

from zone9.api.state import state_of
from zone9.store import counting, installation

COUNTED_SECONDS = 2.0

# Name, help and column of what is told of each region's passes.
SWEEPS = (
    ("passes", "passes over the region", "passes"),
    ("pass_requests", "requests of the newest pass, reading configs apart", "requests"),
    ("pass_seconds", "how long the newest pass took", "seconds"),
    ("pass_good_age_seconds", "age of the newest pass whose silence means something", "good_age"),
    (
        "pass_frozen",
        "what speaks against the newest pass's silence; while it is not 0, no absence is judged",
        "frozen",
    ),
    ("pass_log_gaps", "times that the cluster log had a gap", "gaps"),
    ("pass_clock_skew_seconds", "by which the answering node's clock is ahead of ours", "skew"),
    ("guests", "VMs and containers that the region lists", "guests"),
    ("guests_missing", "VMs and containers that it lists no more", "missing"),
    ("guests_suspect", "VMs whose config is to be read at once", "suspects"),
)

routes = APIRouter(tags=["health"])


class Answering(BaseModel):
    """Whether this process answers, or is ready."""

    status: str


@routes.get("/healthz", response_model=Answering, operation_id="healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@routes.get("/readyz", response_model=Answering, responses={503: {"model": Answering}}, operation_id="readyz")
async def readyz(request: Request) -> Response:
    """Ready: the database answers and is at the version that this code knows."""
    ready = await installation.ready(state_of(request).database)
    return JSONResponse({"status": "ok" if ready else "database"}, 200 if ready else 503)


@routes.get("/metrics", response_class=PlainTextResponse, operation_id="metrics")
async def metrics(request: Request) -> Response:
    """Prometheus's text format."""
    state = state_of(request)
    now = time.monotonic()
    if state.counted is None or state.counted[0] <= now:
        registry = CollectorRegistry()
        registry.register(_Counted(await counting.counts(state.database)))
        # Whoever may ask without a token must not be able to keep the database counting.
        state.counted = (now + COUNTED_SECONDS, generate_latest(registry).decode())
    return PlainTextResponse(state.counted[1])


class _Counted(Collector):
    """Turns counts into metrics."""

    def __init__(self, counts: counting.Counts) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        histogram = HistogramMetricFamily(
            "zone9_convergence_seconds", "from asking to reading back, by kind", labels=["kind"]
        )
        for one in self._counts.convergence:
            edges = [*(str(edge) for edge in counting.BUCKETS), "+Inf"]
            histogram.add_metric([one.kind], list(zip(edges, one.counts, strict=True)), one.sum_seconds)
        yield histogram
        jobs = GaugeMetricFamily("zone9_jobs", "jobs by kind and status", labels=["kind", "status"])
        for kind, status, number in self._counts.jobs:
            jobs.add_metric([kind, status], number)
        yield jobs
        resources = GaugeMetricFamily(
            "zone9_resources", "living resources by state as stored", labels=["kind", "convergence", "health"]
        )
        for kind, convergence, health, number in self._counts.resources:
            resources.add_metric([kind, convergence, health], number)
        yield resources
        restarts = GaugeMetricFamily(
            "zone9_process_restarts",
            "processes that ended by themselves and were started again, as far back as events are kept",
            labels=["role"],
        )
        for role, number in self._counts.restarts:
            restarts.add_metric([role], number)
        yield restarts
        yield from self._percentiles()
        yield from self._sweeps()
        yield GaugeMetricFamily(
            "zone9_overdue",
            "resources that nobody has looked at for a minute after their time",
            self._counts.due,
        )

    def _sweeps(self) -> Iterable[Metric]:
        for name, told, column in SWEEPS:
            gauge = GaugeMetricFamily(f"zone9_{name}", told, labels=["region"])
            for one in self._counts.sweeps:
                if one[column] is not None:
                    gauge.add_metric([one["region"]], float(one[column]))
            yield gauge

    def _percentiles(self) -> Iterable[Metric]:
        gone_by = GaugeMetricFamily(
            "zone9_convergence_quantile_seconds",
            "from asking to reading back over the last day, by kind and region",
            labels=["kind", "region", "quantile"],
        )
        for done in self._counts.percentiles:
            for quantile, seconds in (("0.5", done.p50), ("0.95", done.p95), ("0.99", done.p99)):
                gone_by.add_metric([done.kind, done.region_name or "", quantile], seconds)
        yield gone_by
        count = GaugeMetricFamily(
            "zone9_under_way", "versions asked for and not read back yet", labels=["kind", "region"]
        )
        oldest = GaugeMetricFamily(
            "zone9_under_way_oldest_seconds",
            "how long the oldest of them has waited",
            labels=["kind", "region"],
        )
        for one in self._counts.under_way:
            count.add_metric([one.kind, one.region_name or ""], one.count)
            oldest.add_metric([one.kind, one.region_name or ""], one.oldest)
        yield count
        yield oldest
