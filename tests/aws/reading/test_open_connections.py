"""A request on a connection of boto3's client that is open already, against a server that answers as each test wants."""

from collections.abc import Iterator, Mapping
from itertools import chain, repeat

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.httpsession import URLLib3Session

from headrace.pipeline.aws.reading.open_connections import OpenConnections
from tests.aws.raw_server import PLAIN, Server


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@pytest.fixture
def session() -> URLLib3Session:
    return URLLib3Session(timeout=(2, 0.5))  # type: ignore[arg-type] # the stubs know no pair, which botocore passes itself


def opened(server: Server, session: URLLib3Session) -> OpenConnections:
    """Connections of which one is open, because an ordinary request was answered on it."""
    request = AWSPreparedRequest("POST", server.url, {}, b"{}", stream_output=False)  # type: ignore[arg-type] # any mapping will do
    answer = session.send(request)
    assert answer.status_code == 200
    return OpenConnections(session, server.url)


def posted(
    connections: OpenConnections, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes] | None:
    """Status and body of the answer to a request."""
    answer = connections.post(headers or {}, b"{}")
    return None if answer is None else (answer.status, bytes(answer.body))


def test_without_an_open_connection_nothing_is_sent(server: Server, session: URLLib3Session):
    assert posted(OpenConnections(session, server.url)) is None
    assert (server.connections, server.requests) == (0, [])


def test_requests_go_through_the_open_connection(server: Server, session: URLLib3Session):
    connections = opened(server, session)
    assert [posted(connections, {"x-amz-target": "GetRecords"}) for _ in range(3)] == [(200, b"{}")] * 3
    assert server.connections == 1
    assert (
        server.requests[1:]
        == [b"POST / HTTP/1.1\r\nx-amz-target: GetRecords\r\ncontent-length: 2\r\n\r\n{}"] * 3
    )


def test_an_answer_with_another_status_is_given_with_its_status(server: Server, session: URLLib3Session):
    connections = opened(server, session)
    server.answers = chain([b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno!"], repeat(PLAIN))
    assert posted(connections) == (400, b"no!")
    assert posted(connections) == (200, b"{}")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}and more",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nonly a part",
        b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nonly a part",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"something else\r\n\r\n",
    ],
)
def test_after_an_answer_of_another_form_the_connection_is_closed(
    server: Server, session: URLLib3Session, answer: bytes | None
):
    connections = opened(server, session)
    server.answers = chain([answer], repeat(PLAIN))
    assert posted(connections) is None
    assert posted(connections) is None, "no connection is open until an ordinary request opens one"
    assert posted(opened(server, session)) == (200, b"{}")
    assert server.connections == 2


def test_an_answer_that_comes_in_pieces_is_put_together(server: Server, session: URLLib3Session):
    connections = opened(server, session)
    body = bytes(range(256)) * 4_000  # more than one piece on any network
    server.answers = iter([b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body])
    assert posted(connections) == (200, body)


def test_an_answer_has_its_headers_with_names_in_lower_case(server: Server, session: URLLib3Session):
    connections = opened(server, session)
    server.answers = iter([b"HTTP/1.1 200 OK\r\nDate: Tue, 24 Nov 2026\r\nContent-Length: 2\r\n\r\n{}"])
    answer = connections.post({}, b"{}")
    assert answer is not None
    assert answer.headers == {"date": "Tue, 24 Nov 2026", "content-length": "2"}
