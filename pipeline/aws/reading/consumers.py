"""The registered consumers of streams (enhanced fan-out), by requests to Kinesis."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from headrace.pipeline.aws.clients.clients import asking_aws
from headrace.pipeline.aws.clients.error_codes import code_of
from headrace.pipeline.core.shards.stream import StreamId
from headrace.pipeline.errors import Throttled
from headrace.pipeline.ports.consumers import Consumer

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_MISSING: Final = "ResourceNotFoundException"
_EXISTS: Final = "ResourceInUseException"
_LIMIT: Final = "LimitExceededException"


class KinesisConsumers:
    def __init__(self, client: KinesisClient) -> None:
        self._client = client

    def find(self, stream: StreamId, name: str) -> Consumer | None:
        try:
            with asking_aws(f"the consumer {name} of {stream}", passing={_MISSING}):
                answer = self._client.describe_stream_consumer(StreamARN=stream.arn, ConsumerName=name)
        except ClientError:
            return None
        return _consumer(answer["ConsumerDescription"])

    def of(self, stream: StreamId) -> tuple[Consumer, ...]:
        consumers: list[Consumer] = []
        request: dict[str, Any] = {"StreamARN": stream.arn}
        while True:
            with asking_aws(f"the consumers of {stream}"):
                answer = self._client.list_stream_consumers(**request)
            consumers += map(_consumer, answer["Consumers"])
            if not answer.get("NextToken"):
                return tuple(sorted(consumers, key=lambda consumer: consumer.name))
            request["NextToken"] = answer["NextToken"]

    def register(self, stream: StreamId, name: str) -> Consumer:
        try:
            with asking_aws(f"the consumer {name} of {stream}", passing={_EXISTS, _LIMIT}, writes=True):
                answer = self._client.register_stream_consumer(StreamARN=stream.arn, ConsumerName=name)
        except ClientError as error:
            if code_of(error) == _LIMIT:
                raise Throttled(
                    f"Kinesis registers no further consumer of {stream} now: a stream may have 20 consumers (50 in the "
                    "on-demand advantage mode), of which five may be CREATING. Nothing was registered; "
                    "`headrace consumer list` shows those that are there"
                ) from error
            consumer = self.find(stream, name)
            if consumer is None:
                # It was there a moment ago, and was deregistered since.
                raise Throttled(
                    f"the consumer {name} of {stream} is being deleted: try again later"
                ) from error
            return consumer
        return _consumer(answer["Consumer"])

    def deregister(self, consumer: Consumer) -> None:
        try:
            with asking_aws(f"the consumer {consumer.name}", passing={_MISSING}, writes=True):
                self._client.deregister_stream_consumer(ConsumerARN=consumer.arn)
        except ClientError:
            # Another person was faster.
            return


def _consumer(facts: Mapping[str, Any]) -> Consumer:
    return Consumer(
        facts["ConsumerName"],
        facts["ConsumerARN"],
        facts["ConsumerStatus"],
        facts["ConsumerCreationTimestamp"].astimezone(UTC),
    )
