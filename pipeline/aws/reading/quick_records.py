"""The Kinesis client of a reading task: GetRecords without most of botocore's layers.

    a stream's first request ──> botocore's client, which opens a connection and knows the URL
    later requests           ──> signed here, and sent on a connection that is open
                                   ├──> 200, or Kinesis can't answer now: this answer counts
                                   └──> anything else: botocore's client sends the request again

botocore needs more than a millisecond of CPU for a request. At 1.6 MiB a second and shard, a page has about that
many bytes, and these layers took as much as reading and writing 200 of its records of 1 KB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from headrace.pipeline.aws.reading.open_connections import Answer, OpenConnections
from headrace.pipeline.aws.reading.pages_body import WholeBodies
from headrace.pipeline.aws.reading.pages_wire import ARGUMENT, CBOR
from headrace.pipeline.aws.reading.signing import JSON, signed_headers
from headrace.pipeline.encoding.cbor import Body, NotCborError, decoded, encoded

if TYPE_CHECKING:
    from mypy_boto3_kinesis.client import KinesisClient

HELD_BODY: Final = "HeadraceBody"
"""The key in an answer under which its body is."""
THROTTLES: Final = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
    }
)
"""Codes of errors with which Kinesis refuses a request because of the shard's limits."""
EXPIRED: Final = "ExpiredIteratorException"
_STREAM: Final = "HeadraceStream"
_SERVER_ERROR: Final = 500


class QuickRecords:
    def __init__(self, client: KinesisClient) -> None:
        """Take over a client. `client`: one whose GetRecords answers stay undecoded
        (`headrace.pipeline.aws.reading.pages_client.tapped`)."""
        self.client = client
        self._region = client.meta.region_name
        # botocore has no public names for these. Credentials refresh themselves when they are read; the
        # session has the client's timeouts, proxies and certificates.
        self._credentials: Any = client._request_signer._credentials  # type: ignore[attr-defined] # noqa: SLF001
        endpoint: Any = client._endpoint  # type: ignore[attr-defined] # noqa: SLF001
        self._session = endpoint.http_session
        endpoint.http_session = WholeBodies(self._session)
        self._open: dict[str, tuple[str, OpenConnections]] = {}
        """For each stream, by its ARN, the URL of its endpoint and the connections there: AWS has an endpoint
        for each account."""
        client.meta.events.register("provide-client-params.kinesis.GetRecords", self._keep_stream)
        client.meta.events.register("before-call.kinesis.GetRecords", self._note_url)

    def describe_stream_summary(self, **arguments: Any) -> Mapping[str, Any]:
        facts: Mapping[str, Any] = self.client.describe_stream_summary(**arguments)
        return facts

    def get_shard_iterator(self, **arguments: Any) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self.client.get_shard_iterator(**arguments)
        return answer

    def get_records(self, **arguments: Any) -> Mapping[str, Any]:
        return self._quickly(arguments) or self.client.get_records(**arguments)

    def _quickly(self, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        url, connections = self._open.get(arguments["StreamARN"], ("", None))
        # The first request of a stream goes by botocore, which finds the endpoint of the stream's
        # account.
        if connections is None:
            return None
        body, kind = _request(arguments)
        try:
            keys = self._credentials.get_frozen_credentials()
        except BotoCoreError:
            return None
        now = datetime.now(UTC)
        headers = signed_headers(body, url, self._region, keys=keys, now=now, kind=kind)
        answer = connections.post(headers, body)
        return None if answer is None else _used(answer)

    def _keep_stream(self, params: Mapping[str, Any], context: dict[str, Any], **_: object) -> None:
        context[_STREAM] = params["StreamARN"]

    def _note_url(self, params: Mapping[str, Any], context: Mapping[str, Any], **_: object) -> None:
        url, stream = params["url"], context[_STREAM]
        if self._open.get(stream, ("", None))[0] != url:
            self._open[stream] = (url, OpenConnections(self._session, url))


def _request(arguments: Mapping[str, Any]) -> tuple[bytes, str]:
    """The body of a request with these arguments, and its Content-Type."""
    said = dict(arguments)
    kind = said.pop(ARGUMENT, JSON)
    return (encoded(said) if kind == CBOR else json.dumps(said).encode()), kind


def _used(answer: Answer) -> Mapping[str, Any] | None:
    """The answer in botocore's form; None if botocore's client has to ask. Raises ClientError if Kinesis
    can't answer now."""
    about = {"HTTPStatusCode": answer.status, "HTTPHeaders": answer.headers}
    if request_id := answer.headers.get("x-amzn-requestid"):
        about["RequestId"] = request_id
    if answer.status == 200:
        return {HELD_BODY: answer.body, "ResponseMetadata": about}
    code = _code(answer.body, answer.headers.get("content-type", ""))
    # These aren't asked again by botocore: the second request would use up another of the shard's
    # five a second.
    if code in THROTTLES or code == EXPIRED or answer.status >= _SERVER_ERROR:
        error: Any = {"Error": {"Code": code, "Message": ""}, "ResponseMetadata": about}
        raise ClientError(error, "GetRecords")
    return None


def _code(body: Body, kind: str) -> str:
    """The error's code; empty if the body doesn't tell it."""
    try:
        said = decoded(body) if kind == CBOR else json.loads(body)
    except (NotCborError, ValueError):
        return ""
    return str(said.get("__type", "")).rpartition("#")[2] if isinstance(said, dict) else ""
