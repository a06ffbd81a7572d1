"""The format of GetRecords requests and answers: JSON, or CBOR, in which payloads are raw bytes and not base64.

botocore knows only JSON for Kinesis. So events of botocore turn the request, and the body of an error, into
the other format:

    get_records(HeadraceWire=...) ──> the argument is taken out ──> body and Content-Type in CBOR ──> sign, send
                                                              error in CBOR ──> the same in JSON ──> botocore's parser

An answer is decoded by its Content-Type, whatever format the request had.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headrace.pipeline.encoding.cbor import NotCborError, decoded, encoded
from headrace.pipeline.errors import Terminal, Throttled, Unreachable
from headrace.pipeline.settings.choices import WireFormat

if TYPE_CHECKING:
    from mypy_boto3_kinesis.client import KinesisClient

CBOR: Final = "application/x-amz-cbor-1.1"
ARGUMENT: Final = "HeadraceWire"
"""The argument of GetRecords by which a request asks for another format than JSON."""


class WireChoice:
    """The format of one shard's requests. With `auto` it is CBOR until an answer gives reason for JSON."""

    def __init__(self, setting: WireFormat) -> None:
        self._fixed = setting is not WireFormat.AUTO
        self._cbor = setting is not WireFormat.JSON

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments for `get_records` of a client that `with_wire` returned."""
        return {ARGUMENT: CBOR} if self._cbor else {}

    def after(self, trouble: Exception) -> None:
        """Note that a request failed and is sent again, maybe in the other format. A throttled request changes
        nothing, because JSON would be throttled as well.
        """
        if not self._fixed and not isinstance(trouble, Throttled):
            self._cbor = False

    def softened(self, refusal: Exception) -> Exception:
        """The error to raise for a refused request: the refusal itself, or an error after which the request is
        sent again. With `auto`, a general refusal of a request in CBOR may come from an endpoint that knows JSON
        only, so JSON is tried then.
        """
        if self._cbor and not self._fixed and type(refusal) is Terminal:
            return Unreachable(f"{refusal}. The request was in CBOR, and is sent again in JSON")
        return refusal


def with_wire(client: KinesisClient) -> KinesisClient:
    """The same client, whose `get_records` now takes the arguments of `WireChoice.arguments`."""
    # The type stubs don't say that such a handler returns the arguments.
    take: Any = _take_argument
    client.meta.events.register("provide-client-params.kinesis.GetRecords", take)
    client.meta.events.register("before-call.kinesis.GetRecords", _write_in_cbor)
    client.meta.events.register("before-parse.kinesis.GetRecords", _error_in_json)
    return client


def is_cbor(answer: Mapping[str, Any]) -> bool:
    kind = answer["ResponseMetadata"].get("HTTPHeaders", {}).get("content-type", "")
    return str(kind).partition(";")[0].strip().lower() == CBOR


def _take_argument(params: dict[str, Any], context: dict[str, Any], **_: object) -> dict[str, Any]:
    params = dict(params)
    context[ARGUMENT] = params.pop(ARGUMENT, None)
    return params


def _write_in_cbor(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    if context.get(ARGUMENT) == CBOR:
        # Before botocore signs the request.
        params["body"] = encoded(json.loads(params["body"]))
        params["headers"]["Content-Type"] = CBOR


def _error_in_json(response_dict: dict[str, Any], **_: object) -> None:
    if response_dict["status_code"] == 200 or response_dict["headers"].get("Content-Type") != CBOR:
        return
    # A body that isn't CBOR stays: botocore then reports the status.
    with suppress(NotCborError, TypeError):
        response_dict["body"] = json.dumps(decoded(response_dict["body"])).encode()
