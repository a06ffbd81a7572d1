"""The body of an answer is received in one piece, with the errors of botocore's own session."""

from collections.abc import Iterator

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ConnectionClosedError, HTTPClientError, ReadTimeoutError
from botocore.httpsession import URLLib3Session

from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.reading.pages_body import WholeBodies
from headrace.pipeline.aws.reading.pages_client import reader_client
from tests.aws.raw_server import Server

BODY = bytes(range(256)) * 4_000  # more than one part of botocore's


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def session() -> Iterator[WholeBodies]:
    made = WholeBodies(URLLib3Session(timeout=(2, 0.5)))  # type: ignore[arg-type] # the stubs know no pair, which botocore passes itself
    yield made
    made.close()


def sent(session: WholeBodies | URLLib3Session, server: Server) -> AWSResponse:
    return session.send(AWSPreparedRequest("POST", server.url, {}, b"{}", stream_output=False))  # type: ignore[arg-type] # any mapping will do


def with_length(body: bytes, length: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body


def test_a_body_is_one_part_that_isnt_copied_again(server: Server, session: WholeBodies):
    server.answers = iter([with_length(BODY, len(BODY))])
    answer = sent(session, server)
    (part,) = answer.raw.stream()
    assert part == BODY
    assert answer.content is part


def test_bodies_come_one_after_the_other_on_one_connection(server: Server, session: WholeBodies):
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n3\r\nabc\r\n0\r\n\r\n"
    refused = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno!"
    server.answers = iter([with_length(BODY, len(BODY)), chunked, refused, with_length(b"", 0)])
    answers = [sent(session, server) for _ in range(4)]
    assert [(each.status_code, each.content) for each in answers] == [
        (200, BODY),
        (200, b"{}abc"),
        (400, b"no!"),
        (200, b""),
    ]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (with_length(b"only a part", 90), ReadTimeoutError),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nnot a length\r\n",
            ConnectionClosedError,
        ),
    ],
)
def test_a_body_that_doesnt_come_whole_is_the_error_of_botocores_own_session(
    server: Server, session: WholeBodies, answer: bytes, error: type[HTTPClientError]
):
    server.answers = iter([answer, answer])
    with pytest.raises(error):
        sent(URLLib3Session(timeout=(2, 0.5)), server)  # type: ignore[arg-type] # see above
    with pytest.raises(error):
        sent(session, server)


def test_the_clients_of_readers_receive_bodies_whole():
    client = reader_client(KinesisAccess("eu-west-1", "http://127.0.0.1:1"))
    assert isinstance(client.client._endpoint.http_session, WholeBodies)  # type: ignore[attr-defined]
