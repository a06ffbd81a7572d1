"""What a process keeps of AWS between two ticks is made once, shared by threads, and dropped when the credentials
change."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.aws.clients import clients
from headrace.pipeline.aws.clients.meter import Meter
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.model import LandingSettings, Settings, StreamSettings
from tests.memory.clock import MemoryClock

CREDENTIALS_FILE = "[default]\naws_access_key_id = {0}\naws_secret_access_key = secret\n"


@pytest.fixture
def clock() -> MemoryClock:
    return MemoryClock()


@pytest.fixture
def adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: MemoryClock) -> Adapters:
    """The adapters of a process whose AWS keys are in a file."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "credentials"
    file.write_text(CREDENTIALS_FILE.format("first"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return Adapters(
        Settings(
            application="app",
            streams=(StreamSettings(name="orders"),),
            aws=AwsSettings(region="eu-west-1", endpoint="http://127.0.0.1:1"),
            landing=LandingSettings(home=str(tmp_path / "lake")),
        ),
        clock,
    )


def key_of(adapters: Adapters) -> str:
    credentials = adapters.dynamodb()._request_signer._credentials  # type: ignore[attr-defined]
    return str(credentials.access_key)


def test_each_port_is_made_once(adapters: Adapters):
    assert adapters.leases() is adapters.leases()
    assert adapters.workers() is adapters.workers()
    assert adapters.lock() is adapters.lock()
    assert adapters.tables() is adapters.tables()
    assert adapters.table("leader") is adapters.table("leader")
    assert adapters.dynamodb() is adapters.dynamodb()


def test_each_duty_has_its_own_source(adapters: Adapters):
    assert adapters.source("leader") is adapters.source("leader")
    assert adapters.source("leader") is not adapters.source("sensor of w1")


def test_new_keys_in_the_credentials_file_are_used_a_second_later(
    adapters: Adapters, clock: MemoryClock, tmp_path: Path
):
    before, leases = key_of(adapters), adapters.leases()
    (tmp_path / "credentials").write_text(CREDENTIALS_FILE.format("rotated"))
    clock.pause(1)
    assert (before, key_of(adapters)) == ("first", "rotated")
    assert adapters.leases() is not leases


def test_a_changed_endpoint_in_the_environment_is_used_from_the_next_tick_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    adapters = Adapters(
        Settings(application="app", aws=AwsSettings(region="eu-west-1"), streams=(StreamSettings(name="s"),))
    )
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    first = adapters.kinesis().meta.endpoint_url
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
    assert (first, adapters.kinesis().meta.endpoint_url) == ("http://127.0.0.1:1", "http://127.0.0.1:2")


def test_threads_that_ask_for_a_client_at_the_same_time_share_one(
    adapters: Adapters, monkeypatch: pytest.MonkeyPatch
):
    made = 0
    real, start = clients.dynamodb_client, threading.Barrier(8)

    def counted(settings: AwsSettings, meter: Meter) -> object:
        nonlocal made
        made += 1
        return real(settings, meter)

    def ask(_: int) -> object:
        start.wait(10)
        return adapters.leases()

    monkeypatch.setattr(clients, "dynamodb_client", counted)
    with ThreadPoolExecutor(8) as pool:
        stores = set(map(id, pool.map(ask, range(8))))
    assert (len(stores), made) == (1, 1)


def test_windows_read_with_a_smaller_share_of_shards_limits_than_runs(adapters: Adapters):
    stage = adapters.replaying("4f0c2a91", "a run").stage
    assert stage() is stage(), "it remembers where it has stopped in shards with many empty pages"
    pages = [each._pages() for each in (stage(), adapters.stage("w1"))]  # type: ignore[attr-defined]
    assert [(each.share, each.first_page) for each in pages] == [(0.2, 100), (0.8, 10_000)]
