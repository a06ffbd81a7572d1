"""Rules about the streams of DynamoDB tables. Pure functions."""

from collections.abc import Iterator

from headrace.pipeline.settings.choices import Retrieval
from headrace.pipeline.settings.model import Settings, StreamSettings
from headrace.pipeline.settings.rules.broken import Broken
from headrace.pipeline.settings.stream_names import is_dynamodb


def table_stream_rules(settings: Settings) -> Iterator[Broken]:
    """The settings of DynamoDB tables' streams that ask for what such a stream doesn't have, as broken rules."""
    for n, stream in enumerate(settings.streams):
        if not is_dynamodb(stream.name):
            continue
        if stream.retrieval is Retrieval.FANOUT:
            yield Broken(
                f"streams.{n}.retrieval",
                "is fanout, and the stream of a DynamoDB table has no enhanced fan-out: remove it",
                also=(f"streams.{n}.name",),
            )
        if stream.role is not None:
            yield Broken(
                f"streams.{n}.role",
                "is given, and the stream of a DynamoDB table is read by the identity of `aws.profile` or of the "
                "environment: remove it",
                also=(f"streams.{n}.name",),
            )


def no_table_stream(stream: StreamSettings, key: str) -> Broken:
    """The broken rule about an ARN of DynamoDB that isn't the ARN of a stream."""
    if "/stream/" in stream.name:
        return Broken(
            f"{key}.name",
            f"is {stream.name!r}; allowed: a label with milliseconds after `stream/`, as AWS and DynamoDB Local give it "
            "(2026-11-27T05:00:00.000). The stand-in of `headrace local` has no streams of tables that can be read",
        )
    return Broken(
        f"{key}.name",
        f"is {stream.name!r}; allowed: the ARN of the table's stream "
        "(arn:aws:dynamodb:<region>:<account>:table/<table>/stream/<label>), which `aws dynamodb describe-table` tells as "
        "LatestStreamArn. A table's own ARN doesn't tell which of its streams is meant: it gets another one each time that "
        "its stream is switched on",
    )
