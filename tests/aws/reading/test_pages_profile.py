"""Who asks Kinesis in a Spark task, and where: as the driver says, whatever the environment of the task's host says."""

from datetime import timedelta
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.aws.clients.access import KinesisAccess
from headrace.pipeline.aws.clients.clients import kinesis_access
from headrace.pipeline.aws.reading.pages import KinesisPages
from headrace.pipeline.aws.reading.pages_client import reader_client
from headrace.pipeline.core.ledger.batch import Batch
from headrace.pipeline.core.shards.position import TRIM
from headrace.pipeline.core.shards.stream import ShardKey, StreamId
from headrace.pipeline.errors import BadSetting, Unreachable
from headrace.pipeline.local.endpoint import LocalAws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.task_identity import ROLE_OF_THE_HOST, AwsKeys, DriverIdentity, TaskIdentity, named
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
    credentials = reader_client(pages.access).client._request_signer._credentials  # type: ignore[attr-defined]
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
def test_a_role_of_the_drivers_host_is_a_role_of_the_tasks_host_and_never_its_environment(
    aws: LocalAws, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of Spark keeps the environment of the process that started it, which may be another project's."""
    pages = pages_of(aws, None)
    monkeypatch.setenv("AWS_PROFILE", "streaming")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDOTHER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another project's")
    with pytest.raises(
        BadSetting, match=r"has no role, and Headrace itself works by the role of its own host"
    ):
        next(pages.pages(batch))


def test_the_keys_of_the_driver_go_with_the_reader_and_the_environment_of_the_task_doesnt_count(
    aws: LocalAws, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDDRIVER")
    pages = pages_of(aws, None)
    others = {
        "AWS_ACCESS_KEY_ID": "AKIDOTHER",
        "AWS_PROFILE": "absent",
        "AWS_REGION": "us-west-1",
        "AWS_DEFAULT_REGION": "us-west-1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ENDPOINT_URL_KINESIS": "http://127.0.0.1:1",
        "AWS_USE_FIPS_ENDPOINT": "true",
        "AWS_USE_DUALSTACK_ENDPOINT": "true",
        "AWS_CONFIG_FILE": "/nowhere",
    }
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    assert next(pages.pages(batch)).rows == 1
    client = reader_client(pages.access).client
    assert client._request_signer._credentials.access_key == "AKIDDRIVER"  # type: ignore[attr-defined]


def test_awss_own_endpoint_is_asked_where_the_driver_has_no_other_whatever_the_tasks_host_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_KINESIS", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    client = reader_client(KinesisAccess("eu-west-3", identity=DriverIdentity().now())).client
    assert client.meta.endpoint_url == "https://kinesis.eu-west-3.amazonaws.com"


@pytest.mark.parametrize(
    ("variables", "there"),
    [
        ({}, KinesisAccess("eu-west-3")),
        ({"AWS_ENDPOINT_URL_KINESIS": "http://b"}, KinesisAccess("eu-west-3", "http://b")),
        ({"AWS_ENDPOINT_URL": "http://a"}, KinesisAccess("eu-west-3", "http://a")),
        ({"AWS_USE_FIPS_ENDPOINT": "true"}, KinesisAccess("eu-west-3", fips=True)),
        ({"AWS_CA_BUNDLE": "/certificates"}, KinesisAccess("eu-west-3", certificates="/certificates")),
    ],
)
def test_what_the_drivers_environment_says_of_endpoint_and_region_is_handed_over(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], there: KinesisAccess
) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert kinesis_access(AwsSettings()) == there


@pytest.mark.usefixtures("files_of_the_host")
def test_a_profile_is_looked_up_in_the_files_that_the_driver_names(
    aws: LocalAws, batch: Batch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another project may have a profile of the same name in files of its own."""
    pages = pages_of(aws, "streaming")
    (tmp_path / "others").write_text(
        "[streaming]\naws_access_key_id = OTHER\naws_secret_access_key = secret\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "others"))
    assert next(pages.pages(batch)).rows == 1
    credentials = reader_client(pages.access).client._request_signer._credentials  # type: ignore[attr-defined]
    assert credentials.access_key == "streaming"


@pytest.mark.parametrize("by", ["variable", "variable of the service", "profile", "services of the profile"])
@pytest.mark.usefixtures("files_of_the_host")
def test_a_profiles_role_is_asked_for_where_the_driver_would_ask(
    aws: LocalAws, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    """The environment of the task's host may name the endpoint of another project's stand-in."""
    config = "[profile role]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = streaming\nregion = eu-west-1\n"
    if by == "variable":
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.endpoint)
    elif by == "variable of the service":
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:2")
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", aws.endpoint)
    elif by == "profile":
        config += f"endpoint_url = {aws.endpoint}\n"
    else:
        config += f"services = here\n[services here]\nsts =\n  endpoint_url = {aws.endpoint}\n"
    (tmp_path / "config").write_text(config)
    identity = named("role")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    credentials = identity.session().get_credentials()
    assert credentials is not None
    assert str(credentials.get_frozen_credentials().access_key).startswith("ASIA")


@pytest.mark.usefixtures("files_of_the_host")
def test_after_a_refusal_of_keys_the_host_s_files_are_read_again(batch: Batch, tmp_path: Path) -> None:
    """A worker of Spark lives for many runs, and the keys of a file may be replaced meanwhile."""
    server = Server(ending=b"}")
    refusal = b'{"__type": "UnrecognizedClientException"}'
    server.answers = repeat(
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n%s" % (len(refusal), refusal)
    )
    pages = KinesisPages(access=KinesisAccess("eu-west-1", server.url, named("streaming")))
    before = reader_client(pages.access)
    with pytest.raises(BadSetting, match="UnrecognizedClientException"):
        next(pages.pages(batch))
    after = reader_client(pages.access)
    server.close()
    assert after is not before


def test_credentials_that_cant_be_had_now_are_asked_for_again_at_the_next_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    identity = DriverIdentity()
    with pytest.raises(
        Unreachable, match=r"can't be had now \(The config profile \(work\) could not be found\)"
    ):
        identity.now()
    (tmp_path / "config").write_text(
        "[profile work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = secret\n"
    )
    assert identity.now() == TaskIdentity(keys=AwsKeys("AKIDWORK", "secret"))


_ROLE = "arn:aws:iam::123456789012:role/ci"
_STS_SAYS = b"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/ci/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>
<Credentials><AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>session</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


@pytest.mark.usefixtures("files_of_the_host")
@pytest.mark.parametrize(
    ("in_environment", "identity"),
    [
        ((), TaskIdentity(keys=AwsKeys("ASIAROLE", "secret", "session"))),
        (("AWS_WEB_IDENTITY_TOKEN_FILE",), TaskIdentity(keys=AwsKeys("ASIAROLE", "secret", "session"))),
        (("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN"), ROLE_OF_THE_HOST),
    ],
)
def test_a_web_identity_is_a_role_of_the_host_only_where_the_environment_gives_all_of_it(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    in_environment: tuple[str, ...],
    identity: TaskIdentity,
) -> None:
    """A task reads no AWS file and no profile. So it has nothing of a web identity that a profile of the driver gives."""
    token = tmp_path / "token"
    token.write_text("who-I-am")
    (tmp_path / "config").write_text(
        f"[profile ci]\nrole_arn = {_ROLE}\nweb_identity_token_file = {token}\nrole_session_name = job\n"
    )
    given = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(token), "AWS_ROLE_ARN": _ROLE}
    server = Server(ending=b"who-I-am")
    server.answers = repeat(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nContent-Length: %d\r\n\r\n%s"
        % (len(_STS_SAYS), _STS_SAYS)
    )
    for name, value in {
        "AWS_PROFILE": "ci",
        "AWS_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL_STS": server.url,
        **{name: given[name] for name in in_environment},
    }.items():
        monkeypatch.setenv(name, value)
    now = DriverIdentity().now()
    server.close()
    assert now == identity


@pytest.mark.usefixtures("files_of_the_host")
def test_a_token_whose_file_is_gone_is_looked_for_again_at_the_next_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "ci")
    (tmp_path / "config").write_text(
        f"[profile ci]\nrole_arn = {_ROLE}\nweb_identity_token_file = {tmp_path / 'gone'}\nregion = eu-west-1\n"
    )
    with pytest.raises(Unreachable, match=r"can't be had now \(.*gone.*the next try asks"):
        DriverIdentity().now()
