"""Receives the body of an answer into one piece of memory.

botocore reads a body in parts of 64 KiB and then joins them: each byte of a page of 10 MiB is copied once more,
into memory that the system has to fill with zeros before. That was a fifth of all memory that a task had filled
with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import urllib3.exceptions as urllib3
from botocore.exceptions import ConnectionClosedError, ReadTimeoutError

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse
    from botocore.httpsession import URLLib3Session


class _Received:
    """Takes the place of urllib3's answer once its body is there."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self) -> Iterator[bytes]:
        yield self._body


class WholeBodies:
    """Takes the place of botocore's HTTP session, uses its connections, and receives each body into one piece of
    memory.
    """

    def __init__(self, session: URLLib3Session) -> None:
        self._session = session

    def send(self, request: AWSPreparedRequest) -> AWSResponse:
        # botocore leaves the body on the connection.
        request.stream_output = True
        response = self._session.send(request)
        try:
            # Python's `bytes.join` hands on a single part without a copy.
            received: Any = _Received(response.raw.read())
        # The errors that botocore makes of these; headrace.pipeline.aws.reading.pages asks again.
        except urllib3.ReadTimeoutError as error:
            raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
        except urllib3.HTTPError as error:
            raise ConnectionClosedError(error=error, request=request, endpoint_url=request.url) from error
        response.raw = received
        return response

    def close(self) -> None:
        self._session.close()
