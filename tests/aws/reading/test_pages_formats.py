"""In which format the reader asks Kinesis, and what it makes of the answers."""

from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HTTPHeaders

from headrace.pipeline.errors import BadAnswer, BadSetting, DataLoss, Terminal, Throttled
from headrace.pipeline.local.wires import wire_of
from headrace.pipeline.settings.choices import WireFormat
from tests.aws.pages_world import World, numbers_of, payloads_of, until_tip

JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"


class Formats(World):
    """A world that notes in which format each GetRecords is asked, and whose endpoint may know JSON only."""

    def __init__(self, *, only_json: bool = False) -> None:
        super().__init__()
        self.asked: list[str] = []
        self._only_json = only_json

    def _connect(self, place: Any) -> Any:
        client = super()._connect(place)
        client.meta.events.register_first("before-send.kinesis.*", self._look)
        return client

    def _look(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
        if b"GetRecords" not in _bytes(request.headers["X-Amz-Target"]):
            return None
        kind = request.headers["Content-Type"]
        kind = kind.decode() if isinstance(kind, bytes) else str(kind)
        self.asked.append(kind)
        if self._only_json and kind == CBOR:
            headers = HTTPHeaders()
            headers["Content-Type"] = "text/html"
            return AWSResponse(str(request.url), 400, headers, _Body(b"<html>what is this?</html>"))
        return None


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value or b"")


class _Body:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        return [self._body]


@pytest.mark.parametrize(
    ("wire", "kind"), [(WireFormat.AUTO, CBOR), (WireFormat.CBOR, CBOR), (WireFormat.JSON, JSON)]
)
def test_records_are_asked_for_in_the_format_of_the_setting(wire: WireFormat, kind: str):
    world = Formats()
    numbers = world.put(b"\x00\xff one", b"two")

    pages = until_tip(world.reader(wire=wire).pages(world.batch()))

    assert (numbers_of(pages), payloads_of(pages)) == (numbers, [b"\x00\xff one", b"two"])
    assert set(world.asked) == {kind}


def test_with_auto_an_endpoint_that_knows_only_json_is_asked_in_json():
    world = Formats(only_json=True)
    numbers = world.put(b"one")

    pages = until_tip(world.reader().pages(world.batch()))

    assert numbers_of(pages) == numbers
    assert world.asked == [CBOR, JSON]


def test_with_cbor_an_endpoint_that_knows_only_json_is_an_error():
    world = Formats(only_json=True)
    world.put(b"one")

    with pytest.raises(Terminal, match="refuses to give records"):
        until_tip(world.reader(wire=WireFormat.CBOR).pages(world.batch()))


@pytest.mark.parametrize(("asked", "answered"), [(WireFormat.CBOR, JSON), (WireFormat.JSON, CBOR)])
def test_an_answer_is_read_as_what_it_says_it_is(asked: WireFormat, answered: str):
    """A proxy may translate: what counts is the answer's Content-Type."""
    world = Formats()
    numbers = world.put(b"one")
    reader = world.reader(wire=asked)
    connect = reader.host.connect

    def translating(place: Any) -> Any:
        client = connect(place)
        client.meta.events.register_first("before-send.kinesis.*", _translated_to(answered))
        return client

    object.__setattr__(reader.host, "connect", translating)

    assert numbers_of(until_tip(reader.pages(world.batch()))) == numbers


def _translated_to(kind: str) -> Any:
    def translate(request: AWSPreparedRequest, **_: Any) -> None:
        if b"GetRecords" not in _bytes(request.headers["X-Amz-Target"]):
            return
        given = request.headers["Content-Type"]
        said = wire_of(given.decode() if isinstance(given, bytes) else str(given)).read(_bytes(request.body))
        request.body = wire_of(kind).written(said)
        del request.headers["Content-Type"]
        request.headers["Content-Type"] = kind

    return translate


@pytest.mark.parametrize("wire", WireFormat)
@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("AccessDeniedException", 400, BadSetting),
        ("ResourceNotFoundException", 400, DataLoss),
        ("InvalidArgumentException", 400, Terminal),
    ],
)
def test_errors_have_the_same_names_in_each_format(
    wire: WireFormat, code: str, status: int, kind: type[Exception]
):
    world = Formats()
    world.put(b"one")
    world.aws.inject("error", operation="GetRecords", code=code, status=status)

    with pytest.raises(kind):
        until_tip(world.reader(wire=wire, patience=1.0).pages(world.batch()))


def test_an_expired_iterator_is_replaced_in_cbor_too():
    world = Formats()
    numbers = world.put(*[b"x" for _ in range(10_500)])
    pages = world.reader(wire=WireFormat.CBOR).pages(world.batch())

    first = next(pages)
    world.aws.clock.advance(301)

    assert numbers_of([first, *until_tip(pages)]) == numbers
    assert set(world.asked) == {CBOR}


def test_a_throttled_shard_goes_on_in_cbor_and_a_failing_one_in_json():
    world = Formats()
    world.put(b"one")
    world.aws.inject("throttle", operation="GetRecords", count=1)
    until_tip(world.reader().pages(world.batch()))
    assert set(world.asked) == {CBOR}

    world.asked.clear()
    world.aws.inject("error", operation="GetRecords", count=1)
    until_tip(world.reader().pages(world.batch()))
    assert world.asked == [CBOR, JSON]


def test_a_cbor_answer_that_cant_be_right_is_an_error_with_the_aws_request_id(
    monkeypatch: pytest.MonkeyPatch,
):
    world = Formats()
    world.put(b"payload-canary", key="key-canary")
    monkeypatch.setattr(
        "headrace.pipeline.aws.reading.pages.held_body", lambda _: b"\xa1gRecords\x81\xa1dDataepayload-canary"
    )

    with pytest.raises(BadAnswer, match=r"AWS's request id: [0-9a-f-]{10,}") as caught:
        next(world.reader(wire=WireFormat.CBOR, patience=1.0).pages(world.batch()))

    assert "canary" not in str(caught.value)
