"""The reader that Spark's tasks use takes the profile named in the settings from the AWS files of the task's host."""

from datetime import timedelta
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.adapters import Adapters
from headrace.pipeline.aws.pages import KinesisPages
from headrace.pipeline.aws.pages_client import KinesisAccess, reader_client
from headrace.pipeline.core.batch import Batch
from headrace.pipeline.core.position import TRIM
from headrace.pipeline.core.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.model import AwsSettings, Settings
from tests.aws.raw_server import Server

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

_CREDENTIALS_FILE = "[{0}]\naws_access_key_id = {0}\naws_secret_access_key = secret\n"


@pytest.fixture
def files_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host whose environment has no keys, and whose files have the profile `streaming` only."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(_CREDENTIALS_FILE.format("streaming"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def batch(kinesis: "KinesisClient") -> Batch:
    name = f"s-{uuid4().hex[:8]}"
    kinesis.create_stream(StreamName=name, ShardCount=1)
    facts = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]
    kinesis.put_record(StreamName=name, Data=b"one", PartitionKey="k")
    created = facts["StreamCreationTimestamp"]
    stream = StreamId(facts["StreamARN"], int(created.timestamp()))
    return Batch(ShardKey(stream, "shardId-000000000000"), None, TRIM, created, timedelta(hours=24))


def pages_of(aws: LocalAws, profile: str | None) -> KinesisPages:
    """The reader that the settings make.

    The reader keeps its clients by endpoint and profile for the whole process. The slash at the end makes an endpoint
    that no other test uses, so that no client of another test is found.
    """
    settings = Settings(
        application="app", aws=AwsSettings(region=aws.region, endpoint=f"{aws.endpoint}/", profile=profile)
    )
    return Adapters(settings).pages()  # type: ignore[return-value]


@pytest.mark.usefixtures("files_of_the_host")
def test_records_are_read_with_the_profile_of_the_settings(aws: LocalAws, batch: Batch) -> None:
    pages = pages_of(aws, "streaming")
    assert next(pages.pages(batch)).rows == 1
    credentials = reader_client(pages.place).client._request_signer._credentials  # type: ignore[attr-defined]
    assert credentials.access_key == "streaming"


@pytest.mark.usefixtures("files_of_the_host")
def test_the_error_names_a_profile_that_the_drivers_host_has_and_the_tasks_host_lacks(
    aws: LocalAws, batch: Batch, tmp_path: Path
) -> None:
    (tmp_path / "credentials").write_text(_CREDENTIALS_FILE.format("gone"))
    pages = pages_of(aws, "gone")
    (tmp_path / "credentials").write_text("")
    with pytest.raises(BadSetting) as error:
        next(pages.pages(batch))
    assert str(error.value).startswith(
        f"the host of the Spark task that reads {batch.key} doesn't have the AWS profile that aws.profile in the settings "
        "names ('gone'); nothing was read, and landed records are safe; add the profile to ~/.aws/config there; or"
    )


@pytest.mark.usefixtures("files_of_the_host")
def test_the_error_for_a_missing_profile_says_that_the_tasks_environment_names_it(
    aws: LocalAws, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = pages_of(aws, None)
    monkeypatch.setenv("AWS_PROFILE", "absent")
    with pytest.raises(
        BadSetting, match="that AWS_PROFILE in its environment names; nothing was read"
    ) as error:
        next(pages.pages(batch))
    assert "or remove the variable" in str(error.value)


def test_a_reader_without_a_profile_leaves_the_choice_to_the_tasks_environment(aws: LocalAws) -> None:
    assert pages_of(aws, None).place == KinesisAccess(aws.region, f"{aws.endpoint}/")


@pytest.mark.usefixtures("files_of_the_host")
def test_after_a_refusal_of_keys_the_host_s_files_are_read_again(batch: Batch, tmp_path: Path) -> None:
    """A worker of Spark lives for many runs, and the keys of a file may be replaced meanwhile."""
    server = Server(ending=b"}")
    refusal = b'{"__type": "UnrecognizedClientException"}'
    server.answers = repeat(
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal)
    )
    pages = KinesisPages(region="eu-west-1", endpoint=server.url, profile="streaming")
    before = reader_client(pages.place)
    with pytest.raises(BadSetting, match="UnrecognizedClientException"):
        next(pages.pages(batch))
    after = reader_client(pages.place)
    server.close()
    assert after is not before
