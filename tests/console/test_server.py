"""The console over HTTP: what it answers, what it refuses, and the headers of each answer."""

import gzip
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.pipeline.console.guards import HEADERS, THIS_MACHINE, ServedAs, require_loopback, why_refused
from headrace.pipeline.console.page import TYPES
from headrace.pipeline.console.serve import bound, served_beside
from headrace.pipeline.console.server import Console, app_of
from headrace.pipeline.errors import BadSetting
from tests.console.scenes import a_scene


@contextmanager
def served(console: Console) -> Iterator[str]:
    """The address of a console that is served while the block runs."""
    with served_beside(app_of(console), bound("127.0.0.1", 0)) as address:
        yield address


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(a_scene(4).console()) as url:
        yield url


def get(address: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
    try:
        connection.request(
            "GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def json_of(answer: tuple[int, dict[str, str], bytes]) -> Any:
    return json.loads(answer[2])


def test_the_page_and_all_its_files_are_served_and_ask_for_nothing_elsewhere(address: str):
    for name in ("", *TYPES):
        status, headers, body = get(address, f"/{name}")
        assert status == 200
        assert headers["content-type"] == TYPES[name or "console.html"]
        assert b"http://" not in body
        assert b"https://" not in body
    page = get(address, "/")[2].decode()
    assert all(f'"{name}"' in page for name in TYPES if name != "console.html")


@pytest.mark.parametrize("path", ["/", "/api/look", "/console.js", "/no-such-page"])
def test_each_answer_has_the_headers_that_guard_it(address: str, path: str):
    headers = get(address, path)[1]
    assert {name: headers[name.lower()] for name in HEADERS} == dict(HEADERS)


def test_a_look_and_a_shard_are_answered_as_json(address: str):
    look = json_of(get(address, "/api/look"))
    assert (look["application"], look["open"]) == ("orders-app", 4)
    again = json_of(get(address, f"/api/look?family={look['family']}&since={look['number']}"))
    assert again["moving"] == []
    assert "fixed" not in again
    shard = json_of(get(address, "/api/shard?key=shardId-000000000004"))
    assert shard["name"] == "shardId-000000000004"
    status, _, body = get(address, "/api/shard?key=none")
    assert status == 404
    assert "no such shard" in json.loads(body)["trouble"]


def test_a_large_answer_is_compressed(address: str):
    _, headers, body = get(address, "/api/look", Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(body))["open"] == 4


@pytest.mark.parametrize(
    "query", ["since=x", "since=-1", "since=" + "9" * 500, "family=%00", "since=1&since=2"]
)
def test_a_strange_question_gets_the_whole_look(address: str, query: str):
    assert "fixed" in json_of(get(address, f"/api/look?{query}"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_console_can_only_be_read(address: str, method: str):
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=20)
    try:
        connection.request(method, "/api/look")
        assert connection.getresponse().status == 405
    finally:
        connection.close()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:3030", "127.0.0.1.evil.example", ""])
@pytest.mark.parametrize("path", ["/", "/api/look", "/console.js"])
def test_a_request_under_another_name_is_refused(address: str, host: str, path: str):
    status, headers, body = get(address, path, Host=host)
    assert status == 403
    assert b"rebinding" in body
    assert headers["content-security-policy"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:3030", "127.0.0.1", "[::1]:3030"])
def test_a_request_to_this_machine_is_answered(address: str, host: str):
    assert get(address, "/api/look", Host=host)[0] == 200


def test_another_sites_page_gets_no_data(address: str):
    assert get(address, "/api/look", Sec_Fetch_Site="cross-site")[0] == 403
    assert get(address, "/", Sec_Fetch_Site="cross-site")[0] == 200, "a link may lead to the page"
    assert get(address, "/api/look", Sec_Fetch_Site="same-origin")[0] == 200


def test_an_error_of_the_console_itself_is_a_sentence_and_no_page_of_a_debugger() -> None:
    console = a_scene(4).console()
    console.watch.streams = None  # type: ignore[assignment] # a mistake of the console
    with served(console) as address:
        status, headers, body = get(address, "/api/look")
        assert status == 500
        assert "failed to answer" in json.loads(body)["trouble"]
        assert b"Traceback" not in body
        assert headers["content-security-policy"]
        assert get(address, "/")[0] == 200, "the console goes on"


def test_another_host_needs_an_explicit_flag():
    for host in ("127.0.0.1", "localhost", "::1"):
        require_loopback(host, allowed=False)
    with pytest.raises(BadSetting) as refused:
        require_loopback("0.0.0.0", allowed=False)
    assert "no password" in str(refused.value)
    require_loopback("10.0.0.1", allowed=True)


def test_a_console_for_other_machines_takes_its_own_names_and_addresses_and_no_others():
    served_as = ServedAs(frozenset({"box"}), any_address=True)
    for host in ("box", "BOX:3030", "10.0.0.1:3030", "[fe80::1]:3030", "localhost"):
        assert why_refused(host, None, served_as) is None
    for other in ("evil.example", "10.0.0.1.evil.example", "", None):
        assert why_refused(other, None, served_as)
    assert why_refused("10.0.0.1", None, THIS_MACHINE), "by default not even an address"


def test_a_port_that_is_taken_is_refused_with_its_number():
    with bound("127.0.0.1", 0) as listener, pytest.raises(BadSetting) as taken:
        bound("127.0.0.1", listener.getsockname()[1])
    assert "is taken" in str(taken.value)


def test_an_address_that_is_not_of_this_machine_is_refused_with_the_reason():
    with pytest.raises(BadSetting) as refused:
        bound("192.0.2.1", 0)
    assert "nothing can listen on port 0 of 192.0.2.1" in str(refused.value)
