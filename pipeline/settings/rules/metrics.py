"""Rules about the settings `metrics`. Pure, except that they check whether the packages of `headrace[otel]` are
installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import find_spec

from headrace.pipeline.settings.blocks.metrics import ALL_DIMENSIONS, DIMENSIONS, dimensions_in
from headrace.pipeline.settings.choices import MetricsTo
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.values import show

# CloudWatch's rule for namespaces; those that begin with AWS/ are AWS's own.
_NAMESPACE = re.compile(r"(?!AWS/)(?!:)[A-Za-z0-9 ._/#:-]{1,255}")
_LEAST_EVERY = timedelta(seconds=1)
_MOST_EVERY = timedelta(minutes=5)
_OTEL = ("opentelemetry.sdk.metrics", "opentelemetry.exporter.otlp.proto.http")


def metrics_rules(settings: Settings) -> Iterator[Broken]:
    metrics = settings.metrics
    if metrics.namespace is not None and not _NAMESPACE.fullmatch(metrics.namespace):
        yield Broken(
            "metrics.namespace",
            f"is {metrics.namespace!r}; allowed: 1 to 255 of A-Z a-z 0-9 space . _ / # : -, "
            "not beginning with a colon or with AWS/",
        )
    unknown = sorted(dimensions_in(metrics.dimensions) - set(DIMENSIONS) - {"Operation"})
    if unknown:
        yield Broken(
            "metrics.dimensions",
            f"names {unknown[0]!r}; allowed: {ALL_DIMENSIONS}, or of {', '.join(DIMENSIONS)}, with commas",
        )
    if not _LEAST_EVERY <= metrics.every <= _MOST_EVERY:
        yield Broken(
            "metrics.every",
            f"is {show(metrics.every)}; allowed: {show(_LEAST_EVERY)} to {show(_MOST_EVERY)}",
        )
    if metrics.to is MetricsTo.OTEL and not all(map(_is_installed, _OTEL)):
        yield Broken(
            "metrics.to",
            "is otel, and this Python lacks packages that Headrace's extra `otel` brings: install it from where this Headrace "
            "came from, such as pip install './headrace[otel]' beside the clone's folder, or choose cloudwatch or none",
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package around the module is missing
        return False
