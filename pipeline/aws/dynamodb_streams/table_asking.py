"""Requests of a reading process to DynamoDB Streams about a shard, and what the errors of the answers mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ProfileNotFound,
)

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.error_codes import THROTTLED, code_of
from headrace.pipeline.aws.dynamodb_streams.client import forget_clients, knows_filter
from headrace.pipeline.aws.dynamodb_streams.listing import children_of, listed_shards
from headrace.pipeline.aws.reading.asking import MISSING
from headrace.pipeline.core.shards.shard import Shard
from headrace.pipeline.core.shards.stream import ShardKey
from headrace.pipeline.errors import BadSetting, HeadraceError, Terminal, Throttled, Unreachable, WrongStream

TRIMMED: Final = "TrimmedDataAccessException"
_EXPIRED_TOKEN: Final = "ExpiredTokenException"  # noqa: S105 -- the code of an error
_KEYS: Final = frozenset({_EXPIRED_TOKEN, "UnrecognizedClientException", "InvalidSignatureException"})
_SERVER_ERROR: Final = 500
_RIGHTS: Final = "dynamodb:DescribeStream, dynamodb:GetShardIterator and dynamodb:GetRecords on the stream"


class TableAsking:
    """Sends the requests to DynamoDB Streams for the reading of one shard."""

    def __init__(self, key: ShardKey, access: KinesisAccess, connect: Callable[[KinesisAccess], Any]) -> None:
        self._key = key
        self._access = access
        self._connect = connect

    def call(self, operation: str, **arguments: Any) -> Any:
        """The answer of an operation. Where AWS returns an error, it is the cause of the exception that is raised."""
        try:
            return getattr(self._connect(self._access), operation)(**arguments)
        except ClientError as error:
            raise self._meaning(error) from error
        except HTTPClientError as error:
            raise Unreachable(
                f"DynamoDB Streams could not be reached for {self._key} ({type(error).__name__}). Nothing was lost, "
                "and the request is sent again"
            ) from error
        except (ProfileNotFound, NoCredentialsError) as error:
            raise BadSetting(
                f"the host of the Spark task that reads {self._key} has no credentials for AWS ({error}). Nothing was read, "
                "and landed records are safe. Give that host a role, or name a profile that it has by aws.profile"
            ) from error
        except BotoCoreError as error:
            raise BadSetting(
                f"{self._key} can't be read with this worker's AWS configuration: {error}"
            ) from error

    def children(self) -> tuple[str, ...] | None:
        """The children of the shard, as `children_of` finds them."""
        client = self._connect(self._access)
        return children_of(
            self._describe, self._key.stream.arn, self._key.shard_id, filters=knows_filter(client)
        )

    def listed(self) -> Shard | None:
        """The shard as the stream's listing shows it; None where the shard isn't listed. Raises an error where
        the stream itself doesn't exist.
        """
        try:
            shards = listed_shards(self._describe, self._key.stream.arn)
        except HeadraceError as error:
            if code_of(error.__cause__) != MISSING:
                raise
            raise WrongStream(
                f"the Spark task doesn't find {self._key.stream.arn} in {self._access}, where Headrace itself has found it: "
                "the stream was switched off, or its table deleted, more than a day ago, or something answers the task that "
                "isn't Headrace's DynamoDB. Nothing was read or staged; if the stream exists, look at aws.endpoint and at "
                "the proxies of the task's host"
            ) from error
        return next((shard for shard in shards if shard.shard_id == self._key.shard_id), None)

    def _describe(self, **arguments: Any) -> Any:
        return self.call("describe_stream", **arguments)

    def _meaning(self, error: ClientError) -> Exception:
        code = code_of(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if "AccessDenied" in code or code in _KEYS:
            # The worker's process outlives many runs, so that refused keys would stay although the
            # file has new ones.
            forget_clients()
        if code in THROTTLED:
            return Throttled(
                f"DynamoDB Streams throttles the reading of {self._key} ({code}). Nothing was lost"
            )
        if status >= _SERVER_ERROR or code in {_EXPIRED_TOKEN, "RequestTimeout"}:
            return Unreachable(
                f"DynamoDB Streams failed for {self._key} ({code or status}). Nothing was lost, and the request is sent again"
            )
        if "AccessDenied" in code or code in _KEYS:
            return BadSetting(
                f"AWS doesn't let this worker read {self._key} ({code}). Nothing was read. The worker's role needs {_RIGHTS}"
            )
        return Terminal(
            f"DynamoDB Streams refuses to give records of {self._key} ({code}: {error.response['Error'].get('Message', '')})"
        )
