"""The settings aws.region, aws.profile and aws.endpoint reach the catalog and the files in S3, on the driver and in tasks."""

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.io import load_file_io

from headrace.pipeline.app.adapters import Adapters
from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.files.aws_access import identity_of_s3, keys_of, options_of_s3, with_aws
from headrace.pipeline.lake.files.file_io import with_own_io
from headrace.pipeline.lake.table import plain_read as read
from headrace.pipeline.lake.table.lake_table import IcebergTable
from headrace.pipeline.ports.staging import StagingSpec
from headrace.pipeline.settings.blocks.aws import AwsSettings
from headrace.pipeline.settings.model import LandingSettings, Settings
from headrace.pipeline.task_identity import AwsKeys, DriverIdentity, TaskIdentity, named
from tests.lake.samples import NOON, ORIGIN, StandingClock, a_key, a_landing, at, numbers_in
from tests.lake.stage_script import a_page, a_spec
from tests.lake.written import write_files

A = a_key(0)
OURS = AwsSettings(region="eu-west-1", profile="work", endpoint="http://127.0.0.1:9")


class Heard(BaseHTTPRequestHandler):
    """Answers each request, and keeps who signed it: access key, region and service."""

    signers: set[str]

    def _answer(self) -> None:
        signed = re.search(r"Credential=([^/]+)/\d+/([^/]+)/([^/]+)/", self.headers.get("Authorization", ""))
        self.signers.add("/".join(signed.groups()) if signed else "nobody")
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(404 if self.command == "HEAD" else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_POST = do_HEAD = do_GET = _answer  # noqa: N815 - names of http.server

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def heard() -> Iterator[tuple[str, set[str]]]:
    """The address of a server, and who has signed the requests to it."""
    signers: set[str] = set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Heard,), {"signers": signers}))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", signers
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host has the profile `work`, and other keys in its environment."""
    file = tmp_path / "credentials"
    file.write_text("[work]\naws_access_key_id = AKIAWORK\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")


# --- the properties -----------------------------------------------------------------------------------------


def test_settings_become_properties_of_pyiceberg():
    assert with_aws({"type": "glue"}, OURS) == {
        "type": "glue",
        "client.region": "eu-west-1",
        "client.profile-name": "work",
        "s3.endpoint": "http://127.0.0.1:9",
        "glue.endpoint": "http://127.0.0.1:9",
    }
    assert with_aws({"type": "sql"}, AwsSettings()) == {"type": "sql"}


def test_properties_of_the_catalog_win_and_an_empty_one_means_awss_own():
    own = {"client.region": "us-east-2", "s3.endpoint": "http://minio", "glue.endpoint": ""}
    assert with_aws(own, OURS) == {
        "client.region": "us-east-2",
        "client.profile-name": "work",
        "s3.endpoint": "http://minio",
    }


# --- who signs ----------------------------------------------------------------------------------------------


def s3_io(address: str, **more: str) -> None:
    """Write a file as the driver does."""
    aws = AwsSettings(region="eu-west-1", profile="work", endpoint=address)
    properties = with_own_io(with_aws(more, aws), "s3://lake", private=True)
    with load_file_io(properties, "s3://lake").new_output("s3://lake/a.json").create(overwrite=True) as out:
        out.write(b"{}")


def test_the_driver_signs_requests_to_s3_by_the_profile(heard: tuple[str, set[str]]):
    s3_io(heard[0])
    assert heard[1] == {"AKIAWORK/eu-west-1/s3"}


def test_the_region_and_the_keys_of_the_catalog_win_over_the_settings(heard: tuple[str, set[str]]):
    s3_io(heard[0], **{"s3.region": "us-east-2"})
    s3_io(heard[0], **{"s3.access-key-id": "AKIACATALOG", "s3.secret-access-key": "secret"})
    assert heard[1] == {"AKIAWORK/us-east-2/s3", "AKIACATALOG/eu-west-1/s3"}


def settings(folder: Path, aws: AwsSettings, **catalog: str) -> Settings:
    landing = LandingSettings(catalog=catalog, state="s3://glue-state/headrace", home=str(folder))
    return Settings(application="app", aws=aws, landing=landing)


def opened(settings: Settings) -> IcebergTable:
    """The lake table as a run opens it, at noon and without Kinesis."""
    table = Adapters(settings).table("w1")
    table.clock, table._date_of_aws = StandingClock(), lambda: None
    return table


def test_glue_is_asked_in_the_region_and_by_the_profile_of_the_settings(heard: tuple[str, set[str]]):
    aws = AwsSettings(region="eu-west-1", profile="work", endpoint=heard[0])
    table = opened(settings(Path(), aws, type="glue", warehouse="s3://lake"))
    with pytest.raises(KeyError, match="Table"):  # the server's answer is empty
        table.load()
    assert heard[1] == {"AKIAWORK/eu-west-1/glue"}


def test_a_spark_task_signs_by_the_profile_of_its_own_host(heard: tuple[str, set[str]], tmp_path: Path):
    options = (("endpoint", heard[0]), ("region", "eu-west-1"))
    spec = StagingSpec("s3://lake/data", a_spec(tmp_path).field_ids, options, named("work"))
    page = a_page(1)
    assert page.records is not None
    write_files({A: [page.records]}, spec, now=lambda: NOON, fresh=lambda: "a")
    assert heard[1] == {"AKIAWORK/eu-west-1/s3"}


def identity(**properties: str) -> TaskIdentity | None:
    return identity_of_s3(properties, DriverIdentity().now)


def test_a_spark_task_asks_s3_as_the_driver_and_not_as_its_own_environment_says(
    heard: tuple[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = options_of_s3({"s3.endpoint": heard[0], "client.region": "eu-west-1"})
    spec = StagingSpec("s3://lake/data", a_spec(tmp_path).field_ids, options, identity())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
    monkeypatch.setenv("AWS_REGION", "us-west-1")
    page = a_page(1)
    assert page.records is not None
    write_files({A: [page.records]}, spec, now=lambda: NOON, fresh=lambda: "a")
    assert heard[1] == {"AKIAENV/eu-west-1/s3"}
    assert "secret" not in f"{spec!r} {spec.identity}"


def test_the_catalogs_properties_say_who_a_task_is_before_anything_else():
    keys = {"s3.access-key-id": "AKIACATALOG", "s3.secret-access-key": "s", "s3.session-token": "t"}
    assert identity(**keys, **{"client.profile-name": "work"}) == TaskIdentity(
        keys=AwsKeys("AKIACATALOG", "s", "t")
    )
    assert identity(**{"client.profile-name": "work"}) == named("work")
    assert identity(**{"s3.anonymous": "true"}) is None
    assert identity() == TaskIdentity(keys=AwsKeys("AKIAENV", "secret"))


def test_a_role_of_the_catalogs_properties_is_taken_by_the_driver(moto: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", moto)
    role = {"s3.role-arn": "arn:aws:iam::123456789012:role/lake", "client.region": "eu-west-1"}
    taken = identity(**role)
    assert taken is not None
    assert taken.keys is not None
    assert taken.keys.token
    assert taken.keys.access_key != "AKIAENV"
    assert identity(**role) == taken, "the role isn't taken anew while its keys last"


def test_the_region_of_the_driver_goes_with_a_task_where_no_setting_names_one(
    monkeypatch: pytest.MonkeyPatch,
):
    assert dict(options_of_s3({})) == {"region": "us-east-1"}
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    assert dict(options_of_s3({})) == {"region": "eu-west-2"}
    assert dict(options_of_s3({"s3.region": "eu-west-3"})) == {"region": "eu-west-3"}


def test_a_table_on_local_files_hands_over_no_identity(tmp_path: Path):
    table = opened(Settings(application="app", aws=OURS, landing=LandingSettings(home=str(tmp_path))))
    table.ensure(create=True)
    assert (table.staging_spec().identity, table.staging_spec().options) == (None, ())
    assert table.spec_reaching("s3://others/output").identity == named("work")


def test_a_host_without_a_role_says_that_its_environment_doesnt_count(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(
        BadSetting, match="has no role, and Headrace itself works by the role of its own host"
    ):
        keys_of(TaskIdentity())


def test_a_host_without_the_profile_says_so():
    with pytest.raises(
        BadSetting, match=r"the host \S+ has no profile of this name: 'other'.*leave aws.profile out"
    ):
        keys_of(named("other"))


def test_changed_keys_of_a_profile_are_used_at_once(tmp_path: Path):
    assert keys_of(named("work"))["access_key"] == "AKIAWORK"
    file = tmp_path / "credentials"
    file.write_text(file.read_text().replace("AKIAWORK", "AKIANEW"))
    assert keys_of(named("work"))["access_key"] == "AKIANEW"


def test_credentials_that_expire_are_fetched_once_until_then(tmp_path: Path):
    calls, process = tmp_path / "calls", tmp_path / "process"
    answer = '{"Version": 1, "AccessKeyId": "AKIAROLE", "SecretAccessKey": "s", "SessionToken": "t", "Expiration": "2999-01-01T00:00:00Z"}'
    process.write_text(f"#!/bin/sh\necho called >> {calls}\necho '{answer}'\n")
    process.chmod(0o700)
    (tmp_path / "config").write_text(f"[profile role]\ncredential_process = {process}\n")
    for _ in range(2):
        assert keys_of(named("role")) == {"access_key": "AKIAROLE", "secret_key": "s", "session_token": "t"}
    assert calls.read_text() == "called\n"


# --- the whole path -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    s3 = boto3.client("s3", endpoint_url=address, region_name="eu-west-1")
    for bucket in ("glue-lake", "glue-state"):
        s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    yield address
    server.stop()


def test_with_glue_and_s3_behind_aws_endpoint_no_further_setting_is_needed(moto: str, tmp_path: Path):
    """As with a replacement of AWS that has all services."""
    aws = AwsSettings(region="eu-west-1", profile="work", endpoint=moto)
    table = opened(settings(tmp_path, aws, type="glue", warehouse="s3://glue-lake/warehouse"))
    table.ensure(create=True)
    table.commit(ORIGIN)
    spec = table.staging_spec()
    assert dict(spec.options) == {"endpoint": moto, "region": "eu-west-1"}
    assert spec.identity == named("work")
    assert not table.commit(a_landing(spec, A, after=None, numbers=[1, 2])).landing.refused
    assert table.load().positions.of(A) == at(2)
    assert numbers_in(read.rows(table)) == {A.shard_id: [1, 2]}


def test_an_endpoint_that_has_no_s3_doesnt_matter_to_a_table_on_local_files(tmp_path: Path):
    """As with `headrace.yaml` of `headrace local`: nothing listens at this address."""
    landing = LandingSettings(home=str(tmp_path))
    table = opened(Settings(application="app", aws=OURS, landing=landing))
    table.ensure(create=True)
    table.commit(ORIGIN)
    assert not table.commit(a_landing(table.staging_spec(), A, after=None, numbers=[1])).landing.refused
    assert numbers_in(read.rows(table)) == {A.shard_id: [1]}
