"""HTTP requests that come over a socket in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.local.http_answer import HttpAnswer, answer_bytes
from headrace.pipeline.local.http_reader import BadHttpError, HttpReader, HttpRequest
from headrace.pipeline.local.moto.room import wsgi_environment

PLAIN = b"POST / HTTP/1.1\r\nHost: x\r\nX-Amz-Target: A.B\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"PUT /b/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nx-amz-checksum-crc32: AAAA\r\n\r\n"
)
BODILESS = b"GET /b/k?list-type=2 HTTP/1.1\r\nHost: x\r\n\r\n"


def read_all(pieces):
    reader, found = HttpReader(), []
    for piece in pieces:
        reader.feed(piece)
        while (request := reader.next_request()) is not None:
            found.append(request)
    return found


@given(st.lists(st.sampled_from([PLAIN, CHUNKED, BODILESS]), min_size=1, max_size=4), st.integers(1, 60))
def test_requests_are_parsed_alike_however_their_bytes_are_cut(requests, size):
    stream = b"".join(requests)
    found = read_all(stream[at : at + size] for at in range(0, len(stream), size))
    expected = {
        PLAIN: ("POST", "/", b"hello"),
        CHUNKED: ("PUT", "/b/k", b"hello"),
        BODILESS: ("GET", "/b/k?list-type=2", b""),
    }
    assert [(item.method, item.target, item.body) for item in found] == [expected[item] for item in requests]


def test_header_names_are_lower_case_and_repeated_ones_joined():
    (request,) = read_all([b"GET / HTTP/1.1\r\nX-A:  1 \r\nx-a: 2\r\nConnection: Close\r\n\r\n"])
    assert request.headers == {"x-a": "1,2", "connection": "Close"}
    assert not request.keeps_alive


def test_a_client_that_waits_for_100_continue_is_recognized_while_its_body_is_missing():
    reader = HttpReader()
    reader.feed(b"PUT /b/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert reader.next_request() is None
    assert reader.wants_continue
    reader.wants_continue = False
    reader.feed(b"hi")
    request = reader.next_request()
    assert request is not None
    assert request.body == b"hi"


@pytest.mark.parametrize("bytes_", [
    b"hello\r\n\r\n",
    b"GET / SPDY/3\r\n\r\n",
    b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
    b"POST / HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n",
    b"x" * 70_000,
])  # fmt: skip
def test_bytes_that_are_no_http_are_refused(bytes_):
    with pytest.raises(BadHttpError):
        read_all([bytes_])


def test_an_answer_has_the_servers_date_and_length_not_the_applications():
    headers = (("Date", "old"), ("Content-Length", "7"), ("ETag", "x"), ("Server", "moto"))
    text = b"".join(answer_bytes(HttpAnswer(200, headers, b"hello"), date="now", method="GET", keep=True))
    assert (
        text
        == b"HTTP/1.1 200 OK\r\nDate: now\r\nETag: x\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"
    )


def test_an_answer_to_head_has_the_length_and_no_body():
    text = b"".join(answer_bytes(HttpAnswer(200, (), b"", "12000"), date="now", method="HEAD", keep=False))
    assert text == b"HTTP/1.1 200 OK\r\nDate: now\r\nContent-Length: 12000\r\nConnection: close\r\n\r\n"


def test_an_answer_with_status_204_has_neither_length_nor_body():
    text = b"".join(answer_bytes(HttpAnswer(204, (), b"x"), date="now", method="DELETE", keep=True))
    assert b"Content-Length" not in text
    assert text.endswith(b"\r\n\r\n")


def test_wsgi_gets_the_path_decoded_and_raw_and_metadata_headers_unchanged():
    headers = {
        "host": "127.0.0.1:80",
        "x-amz-meta-my_key": "v",
        "content-type": "text/plain",
        "expect": "100-continue",
    }
    environ = wsgi_environment(HttpRequest("PUT", "/b/a%2Fb%20%C3%BC?x=1", headers, b"body"))
    assert environ["PATH_INFO"].encode("latin-1").decode() == "/b/a/b ü"
    assert (environ["RAW_URI"], environ["QUERY_STRING"]) == ("/b/a%2Fb%20%C3%BC?x=1", "x=1")
    assert environ["moto.preserved_header_names"] == {"HTTP_X_AMZ_META_MY_KEY": "x-amz-meta-my_key"}
    assert (environ["CONTENT_TYPE"], environ["CONTENT_LENGTH"]) == ("text/plain", "4")
    assert "HTTP_EXPECT" not in environ
