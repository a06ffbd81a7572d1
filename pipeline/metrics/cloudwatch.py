"""Sends metrics to Amazon CloudWatch in the form that KCL uses: statistic sets, without a time of their own."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.errors import HeadraceError
from headrace.pipeline.metrics.ports import Refusal
from headrace.pipeline.metrics.statistics import Datum

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

MOST_IN_A_CALL: Final = 500
"""CloudWatch takes 1,000 metrics and 1 MB a request; 500 with names of the usual length are a seventh of that. KCL sends 20."""
_LONGEST_VALUE: Final = 1024
"""Letters of a dimension's value."""
_QUICK: Final = 1
"""gzip's level. A higher one takes far longer, and little off."""


class CloudWatchSink:
    def __init__(self, client: Callable[[], CloudWatchClient], namespace: str) -> None:
        """`client`: gives a client with the credentials of the moment."""
        self._client = client
        self._namespace = namespace
        self._known: CloudWatchClient | None = None
        self._body = b""
        """The body of the request that is sent next."""

    def send(self, data: Sequence[Datum]) -> Refusal | None:
        """Send the values to CloudWatch, in as many requests as they need. Where one request fails, those after
        it aren't tried: they would fail for the same reason, and each takes seconds.
        """
        for first in range(0, len(data), MOST_IN_A_CALL):
            batch = [_as_datum(datum) for datum in data[first : first + MOST_IN_A_CALL]]
            try:
                with asking_aws(f"CloudWatch namespace {self._namespace!r}"):
                    self._put(batch)
            except HeadraceError as error:
                return Refusal(str(error), sum(datum.statistics.samples for datum in data[first:]))
        return None

    def _put(self, batch: list[Any]) -> None:
        client = self._client()
        # botocore takes 20 us to write a datum, which was most of what metrics cost. So it gets the first one only, for the headers of the
        # request, and the body is written here. Older versions of botocore speak another protocol, and write it themselves.
        if getattr(client.meta.service_model, "resolved_protocol", None) != "json":
            client.put_metric_data(Namespace=self._namespace, MetricData=batch)
            return
        if client is not self._known:
            self._known = client
            client.meta.events.register("before-call.cloudwatch.PutMetricData", self._replace_body)
        text = msgspec.json.encode({"Namespace": self._namespace, "MetricData": batch})
        self._body = gzip.compress(text, _QUICK)
        client.put_metric_data(Namespace=self._namespace, MetricData=batch[:1])

    def _replace_body(self, *, params: dict[str, Any], **_: object) -> None:
        params["body"] = self._body
        params["headers"]["Content-Encoding"] = "gzip"


def _as_datum(datum: Datum) -> Any:
    statistics = datum.statistics
    return {
        "MetricName": datum.series.name,
        "Dimensions": list(_dimensions(datum)),
        "Unit": datum.series.unit.value,
        "StatisticValues": {
            "SampleCount": statistics.samples,
            "Sum": statistics.total,
            "Minimum": statistics.least,
            "Maximum": statistics.most,
        },
    }


def _dimensions(datum: Datum) -> Iterator[dict[str, str]]:
    for name, value in datum.dimensions:
        yield {"Name": name, "Value": value[:_LONGEST_VALUE]}
