"""GetRecords of one record, cheaply, to see whether an idle shard has new records.

The request is signed here (AWS's Signature Version 4) and sent on the connections of boto3's client, without
botocore's other layers (validation, endpoint rules, events, retries, parsing), which cost four times as much
as the rest. With 200 idle shards there are 600 such requests a minute, which were most of the CPU of a
deployment without traffic. Only a plain answer with status 200 is used. In all other cases the caller repeats
the request with boto3's ordinary client, which retries and reports errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSPreparedRequest
from botocore.exceptions import BotoCoreError, HTTPClientError

from headrace.pipeline.aws.reading.open_connections import Answer, OpenConnections
from headrace.pipeline.aws.reading.signing import signed_headers

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient


class QuickPeek:
    def __init__(self, client: KinesisClient) -> None:
        self._url = client.meta.endpoint_url
        self._region = client.meta.region_name
        # botocore has no public names for either. Credentials refresh themselves when they are read; the
        # session has the client's timeouts, proxies and certificates.
        self._credentials: Any = client._request_signer._credentials  # type: ignore[attr-defined] # noqa: SLF001
        self._http: Any = client._endpoint.http_session  # type: ignore[attr-defined] # noqa: SLF001
        self._open = OpenConnections(self._http, self._url)

    def first_record(self, iterator: str, stream_arn: str) -> dict[str, Any] | None:
        """The parsed answer of GetRecords for one record; None for anything but a plain success."""
        body = json.dumps({"ShardIterator": iterator, "StreamARN": stream_arn, "Limit": 1}).encode()
        try:
            keys = self._credentials.get_frozen_credentials()
            headers = signed_headers(body, self._url, self._region, keys=keys, now=datetime.now(UTC))
            answer = self._open.post(headers, body) or self._on_a_new_connection(headers, body)
            if answer.status != 200:
                return None
            answer_body = json.loads(answer.body)
        except (BotoCoreError, HTTPClientError, AttributeError, ValueError):
            return None
        return (
            answer_body
            if isinstance(answer_body, dict) and isinstance(answer_body.get("Records"), list)
            else None
        )

    def _on_a_new_connection(self, headers: Mapping[str, str], body: bytes) -> Answer:
        answer = self._http.send(
            AWSPreparedRequest("POST", self._url, headers, body, stream_output=False)  # type: ignore[arg-type]
        )
        return Answer(answer.status_code, answer.headers, answer.content)
