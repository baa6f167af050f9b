"""A load test as Prometheus metrics, pushed to a gateway."""

from __future__ import annotations

import math
from urllib.error import HTTPError

from prometheus_client import CollectorRegistry, Gauge, push_to_gateway

from spectune.domain.bench_run import BenchRun
from spectune.domain.errors import HostError
from spectune.domain.measurement import Measurement
from spectune.domain.metrics import METRICS, MetricName
from spectune.domain.redaction import redact_text

_LABELS = ("model", "level", "temperature")
_TIMEOUT_S = 10.0


def bench_registry(run: BenchRun) -> CollectorRegistry:
    """Gauges spectune_bench_NAME with `_low` and `_high` for the 95 % interval, labelled model, level, temperature.

    Bounds that are not known are not there. Fixed-length answers are told by the temperature label ("0 fixed length").
    """
    registry = CollectorRegistry()
    for name, metric in METRICS.items():
        if name is MetricName.ACCEPT_LENGTH:
            continue
        for suffix, about in (("", ""), ("_low", ", lower bound"), ("_high", ", upper bound")):
            points = [(m, v) for m in run.cells if (v := _bound(m, name, suffix)) is not None and math.isfinite(v)]
            if points:
                gauge = Gauge(_name(name) + suffix, f"{metric.title}{about}", _LABELS, registry=registry)
                for measurement, value in points:
                    gauge.labels(*_labels(run, measurement)).set(value)
    lengths = [(m, m.acceptance.length) for m in run.cells if m.acceptance and m.acceptance.length is not None]
    if lengths:
        gauge = Gauge("spectune_bench_accept_length_tokens", METRICS[MetricName.ACCEPT_LENGTH].title, _LABELS,
                      registry=registry)  # fmt: skip
        for measurement, length in lengths:
            gauge.labels(*_labels(run, measurement)).set(length)
    requests = Gauge("spectune_bench_requests", "requests by how they ended", (*_LABELS, "outcome"), registry=registry)
    doubts = Gauge("spectune_bench_doubts", "reasons not to trust the measurement", _LABELS, registry=registry)
    for measurement in run.cells:
        doubts.labels(*_labels(run, measurement)).set(len(measurement.doubts))
        for outcome, count in measurement.requests.items():
            requests.labels(*_labels(run, measurement), outcome.value).set(count)
    return registry


def push_bench(run: BenchRun, gateway: str, job: str) -> None:
    """Replaces the job's metrics at a gateway by those of the run.

    Raises:
        HostError: when the gateway does not take them.
    """
    shown = redact_text(gateway)
    try:
        push_to_gateway(gateway, job, bench_registry(run), timeout=_TIMEOUT_S)
    except HTTPError as error:
        error.close()
        raise HostError(
            f"the push gateway at {shown} refused the metrics: HTTP {error.code}", "Read its log."
        ) from error
    except (OSError, ValueError) as error:
        raise HostError(
            f"cannot push to {shown}: {redact_text(str(error))}",
            "--push-gateway looks like http://host:9091; what was measured is printed and saved all the same.",
        ) from error


def _bound(m: Measurement, name: MetricName, suffix: str) -> float | None:
    found = m.metrics.get(name)
    if found is None:
        return None
    return {"": found.value, "_low": found.low, "_high": found.high}[suffix]


def _name(name: MetricName) -> str:
    """Units in full at the end, as Prometheus wants them: per_user_tok_s -> per_user_tokens_per_second."""
    for short, full in (("_tok_s", "_tokens_per_second"), ("requests_s", "requests_per_second"), ("_s", "_seconds")):
        if name.value.endswith(short):
            return f"spectune_bench_{name.value.removesuffix(short)}{full}"
    return f"spectune_bench_{name.value}"


def _labels(run: BenchRun, m: Measurement) -> tuple[str, str, str]:
    sampling = m.cell.sampling
    temperature = "default" if sampling.temperature is None else f"{sampling.temperature:g}"
    return run.model, m.cell.level.key, temperature + (" fixed length" if sampling.ignore_eos else "")
