"""Secrets are refused in every setting, and no message repeats them."""

import random
import string
from base64 import b64encode
from typing import cast
from uuid import UUID

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.file import parse_settings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.names import variable_for
from headrace.pipeline.settings.secrets import holds_secret, names_secret
from headrace.pipeline.settings.values import is_mapping, knobs

CANARY = "c4n4ry-of-the-mine"
HEAD = "application: my-app\nstreams: [{name: my-stream}]\n"

REFUSED = [
    f"aws: {{aws_access_key_id: {CANARY}}}",
    f"aws: {{aws_secret_access_key: {CANARY}}}",
    f"aws: {{secretAccessKey: {CANARY}}}",
    f"aws:\n  session_token: {CANARY}",
    f"password: {CANARY}",
    f"password:\n  nested: {CANARY}",
    f"landing: {{catalog: {{s3.secret-access-key: {CANARY}}}}}",
    f"landing: {{catalog: {{s3.access-key-id: {CANARY}}}}}",
    f"landing: {{catalog: {{token: {CANARY}}}}}",
    f"landing: {{catalog: {{credential: {CANARY}}}}}",
    f"landing: {{catalog: {{adls.account-key: {CANARY}}}}}",
    f"landing: {{catalog: {{adls.sas-token: {CANARY}}}}}",
    f"landing: {{catalog: {{header.Authorization: {CANARY}}}}}",
    f"landing: {{catalog: {{uri: 'postgresql://me:{CANARY}@db:5432/lake'}}}}",
    f"landing: {{catalog: {{uri: 'postgresql://:{CANARY}/x@db/lake'}}}}",
    f"landing: {{catalog: {{uri: 'https://{CANARY}@catalog'}}}}",
    f"landing: {{catalog: {{uri: 'http://catalog?token={CANARY}'}}}}",
    f"landing: {{state: 's3://me:{CANARY}@bucket'}}",
    f"aws: {{endpoint: 'http://me:{CANARY}@host'}}",
    f"workers: [{{id: w, spark: {{remote: 'sc://host:15002/;token={CANARY}'}}}}]",
    f"workers: [{{id: w, spark: {{conf: {{spark.hadoop.fs.s3a.secret.key: {CANARY}}}}}}}]",
    f"workers: [{{id: w, spark: {{conf: {{spark.hadoop.fs.s3a.access.key: {CANARY}}}}}}}]",
    f"workers: [{{id: w, spark: {{conf: {{spark.ssl.keyPassword: {CANARY}}}}}}}]",
    f"workers: [{{id: w, spark: {{conf: {{spark.executor.extraJavaOptions: '-DtrustStorePassword={CANARY}'}}}}}}]",
    f"coordination: {{tags: {{api-key: {CANARY}}}}}",
    "aws: {region: AKIAIOSFODNN7EXAMPLE}",
]


@pytest.mark.parametrize("text", REFUSED)
def test_a_secret_in_the_file_is_refused_without_being_repeated(text: str):
    with pytest.raises(BadSetting, match="secrets are never settings") as caught:
        parse_settings(HEAD + text, {}, name="h.yaml")
    assert CANARY not in str(caught.value)
    assert "AKIA" not in str(caught.value)
    assert str(caught.value).startswith("h.yaml:")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HEADRACE__AWS__SECRET_ACCESS_KEY", CANARY),
        ("HEADRACE__LANDING__CATALOG__TOKEN", CANARY),
        ("HEADRACE__LANDING__CATALOG", f"{{token: {CANARY}}}"),
        ("HEADRACE__LANDING__CATALOG", f"{{uri: 'postgresql://me:{CANARY}@db/x'}}"),
        ("HEADRACE__AWS__ENDPOINT", f"http://me:{CANARY}@host"),
    ],
)
def test_a_secret_in_a_variable_is_refused_without_being_repeated(variable: str, value: str):
    with pytest.raises(BadSetting, match="secrets are never settings") as caught:
        parse_settings(HEAD, {variable: value}, name="h.yaml")
    assert CANARY not in str(caught.value)
    assert str(caught.value).startswith(variable)


@pytest.mark.parametrize(
    "text",
    [
        f"password: *{CANARY}",
        f"password: '{CANARY}",
        f"password: !{CANARY}! x",
        f"password: {{{CANARY}",
        f"password: @{CANARY}",
        f"? [{CANARY}]\n: x",
        f"<<: {CANARY}",
        f"unknown: {CANARY}",
        f"wave: {{unknown: {CANARY}}}",
    ],
)
def test_a_file_that_cannot_be_read_is_not_quoted(text: str):
    with pytest.raises(BadSetting) as caught:
        parse_settings(HEAD + text, {}, name="h.yaml")
    assert CANARY not in str(caught.value)


def test_an_unknown_variables_value_is_not_repeated():
    with pytest.raises(BadSetting) as caught:
        parse_settings(HEAD, {"HEADRACE__UNKNOWN": CANARY}, name="h.yaml")
    assert CANARY not in str(caught.value)


ALLOWED = [
    "spark.hadoop.fs.s3a.aws.credentials.provider",
    "oauth2-server-uri",
    "spark.kubernetes.authenticate.oauthTokenFile",
    "token-refresh-enabled",
    "spark.authenticate",
    "spark.network.crypto.saslFallback",
    "client.region",
    "warehouse",
    "monkey",
    "partition-key",
]


@pytest.mark.parametrize("name", ALLOWED)
def test_a_key_that_only_mentions_secrets_is_accepted(name: str):
    text = f"workers: [{{id: w, spark: {{conf: {{{name}: x}}}}}}]"
    loaded = parse_settings(HEAD + text, {}, name="h.yaml")
    assert loaded.settings.workers[0].spark.conf == {name: "x"}


@pytest.mark.parametrize(
    "value",
    ["sc://host:15002/;user_id=me@example.com", "s3://bucket/a@b", "sqlite:///a.db", "postgresql://me@db/x"],
)
def test_a_value_that_only_resembles_a_login_is_accepted(value: str):
    loaded = parse_settings(f"{HEAD}landing: {{state: /s, catalog: {{uri: '{value}'}}}}", {}, name="h.yaml")
    assert loaded.settings.landing.catalog == {"uri": value}


def test_no_setting_has_the_name_of_a_secret():
    assert [key for key, *_ in knobs(Settings) if names_secret(key)] == []


# --- values that look like a secret -----------------------------------------------------------------------------------------------

BASE64 = string.ascii_letters + string.digits + "/+"
FORTY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"  # AWS's own example of a secret access key


def random_text(length: int, seed: int) -> str:
    return "".join(random.Random(seed).choices(BASE64, k=length))


SHAPES = {
    "an access key id": "AKIAIOSFODNN7EXAMPLE",
    "a session's access key id": "ASIAIOSFODNN7EXAMPLE",
    "a secret access key": FORTY,
    "a session token": "IQoJb3JpZ2luX2Vj" + random_text(300, 1),
    "an older session token": "FwoGZXIvYXdzE" + random_text(300, 2),
    "a long random text": random_text(200, 3),
    "a login": "postgresql://me:pa55word@db:5432/lake",
    "a login with an odd password": "https://me:p%40ss%2Fword@catalog",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow",
    "an encrypted private key": "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    "a web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "a bearer token": "Bearer 0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "a login in a header": "Basic " + b64encode(b"me:pa55word").decode(),
    "a signed address": "https://store.example.com/lake?sv=2024&sig=abc%3D",
}
TEXTS_AROUND = ["{}", "before {} after", "-Dx={}", "key:{};", "'{}'"]


@pytest.mark.parametrize("around", TEXTS_AROUND)
@pytest.mark.parametrize("name", SHAPES)
def test_a_value_with_the_shape_of_a_secret_is_recognized(name: str, around: str) -> None:
    assert holds_secret(around.format(SHAPES[name]))


@pytest.mark.parametrize("around", [*TEXTS_AROUND, "s3://bucket/{}/x", "https://host/?a={}&b=1"])
def test_nearly_all_random_keys_are_recognized(around: str) -> None:
    missed = sum(not holds_secret(around.format(random_text(40, seed))) for seed in range(2_000))
    assert missed <= 6, "too many of two thousand keys were not recognized"


def test_a_key_within_an_address_is_recognized() -> None:
    assert holds_secret("s3://bucket/" + FORTY.replace("/", "%2F"))


HINTS = {key: hint for key, _, hint in knobs(Settings)}


def settings_with(key: str, value: object) -> str:
    """A settings file with this value for the key, and with all required settings."""
    tree: dict[str, object] = {"application": "my-app", "streams": [{"name": "my-stream"}]}
    *sections, name = key.split(".")
    if key.startswith(("streams.", "workers.", "parse.")):
        inner: object = {name: value} if len(sections) == 2 else {sections[2]: {name: value}}
        needed = {
            "streams": {"name": "s"},
            "workers": {"id": "w"},
            "parse": {"name": "o", "table": "lake.o", "schema": "id INT"},
        }
        tree[sections[0]] = [needed[sections[0]] | inner]  # type: ignore[operator]
    else:
        nested: object = value
        for section in reversed([*sections, name]):
            nested = [nested] if section == "0" else {section: nested}
        tree |= cast("dict[str, object]", nested)
    return yaml.safe_dump(tree)


def refuses(key: str, hint: object, secret: str) -> None:
    value = {"name": secret} if is_mapping(hint) else secret
    text = yaml.safe_dump(value) if is_mapping(hint) else secret
    for file, environ in ((settings_with(key, value), {}), (HEAD, {variable_for(key): text})):
        with pytest.raises(BadSetting, match=f"{key}.*secrets are never settings") as caught:
            parse_settings(file, environ, name="h.yaml")
        assert not _repeats(str(caught.value), secret), (key, environ)


@pytest.mark.parametrize("secret", [SHAPES["an access key id"], FORTY])
def test_a_secret_is_refused_in_every_setting_and_its_variable_and_not_repeated(secret: str) -> None:
    for key, _, hint in knobs(Settings):
        refuses(key, hint, secret)


@pytest.mark.parametrize("secret", SHAPES.values(), ids=SHAPES)
def test_a_secret_of_every_shape_is_refused_in_every_kind_of_setting(secret: str) -> None:
    for key in ("application", "streams.0.name", "landing.catalog", "workers.0.spark.conf", "wave.records"):
        refuses(key, HINTS[key], secret)


def _repeats(message: str, secret: str) -> bool:
    """Whether the text contains any eight characters of the secret in a row."""
    shown = message.replace("PRIVATE KEY", "")
    return any(secret[n : n + 8] in shown for n in range(len(secret) - 8))


IN_UNUSED_PLACES = [
    "unknown: {0}",
    "unknown: {{deep: [{0}]}}",
    "unknown: &a [*a, {0}]",
    "wave: [{0}]",
    "wave: {0}",
    "workers: {0}",
    "workers: [{0}]",
    "wave: {{records: 1, records: {0}}}",
    "wave: {{records: [{0}]}}",
    "{0}: x",
    "landing: {{catalog: {{{0}: x}}}}",
    "coordination: {{scan_segments: {0}}}",
    "coordination: {{layout: {0}}}",
    "metrics: {{foo: {0}}}",
]


@pytest.mark.parametrize("text", IN_UNUSED_PLACES)
@pytest.mark.parametrize("secret", ["AKIAIOSFODNN7EXAMPLE", f"'{FORTY}'"])
def test_a_secret_in_an_unused_place_is_reported_and_not_repeated(text: str, secret: str) -> None:
    with pytest.raises(BadSetting, match="secrets are never settings") as caught:
        parse_settings(HEAD + text.format(secret), {}, name="h.yaml")
    assert not _repeats(str(caught.value), secret.strip("'"))


def test_a_secret_in_a_variable_of_no_setting_is_reported_and_not_repeated() -> None:
    for variable in ("HEADRACE__AWS__REGIO", "HEADRACE__AWS__WIRE", "HEADRACE__COORDINATION__LAYOUT"):
        with pytest.raises(BadSetting, match="secrets are never settings") as caught:
            parse_settings(HEAD, {variable: FORTY}, name="h.yaml")
        assert not _repeats(str(caught.value), FORTY)


# --- values that aren't secrets ------------------------------------------------------------------------------------

words = st.sampled_from(
    [
        "warehouse",
        "production",
        "orders",
        "landing",
        "events",
        "lake",
        "kinesis",
        "data",
        "eu-west-1",
        "2026",
        "01",
        "31",
        "v2",
        "my_table",
        "Prod",
        "Bronze",
    ]
)
hashes = st.integers(0, 2**160 - 1).map(lambda number: f"{number:040x}")
names = st.from_regex(r"[a-z][a-z0-9_.-]{2,60}", fullmatch=True)
accounts = st.from_regex(r"[0-9]{12}", fullmatch=True)
ordinary = st.one_of(
    st.lists(words, min_size=1, max_size=12).map(lambda parts: f"s3://my-bucket/{'/'.join(parts)}"),
    st.builds("arn:aws:kinesis:eu-west-1:{}:stream/{}".format, accounts, names),
    st.builds("arn:aws:iam::{}:role/service-role/{}".format, accounts, names),
    st.builds(
        "arn:aws:kms:us-east-1:{}:key/{}".format,
        accounts,
        st.integers(0, 2**128 - 1).map(lambda n: UUID(int=n)),
    ),
    hashes.map("s3://bucket/{}/x".format),
    hashes.map(str.upper),
    hashes.map("sha1:{}".format),
    st.integers(0, 2**256 - 1).map(lambda number: f"sha256:{number:064x}"),
    st.integers(0, 2**128 - 1).map(lambda number: str(UUID(int=number))),
    st.builds(
        "{}://{}:{}/{}".format, st.sampled_from(["http", "https", "sc"]), names, st.integers(1, 65535), names
    ),
    names,
)


@given(ordinary)
def test_ordinary_values_are_not_taken_for_secrets(value: str) -> None:
    assert not holds_secret(value)


@pytest.mark.parametrize(
    "value",
    [
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "com.amazonaws.auth.DefaultAWSCredentialsProviderChain",
        "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
        "arn:aws:iam::123456789012:role/aws-service-role/kinesis.amazonaws.com/AWSServiceRoleForKinesis",
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.0,org.apache.hadoop:hadoop-aws:3.4.1",
        "s3://AnalyticsProduction/EventStreams/OrdersLanding/Year2026/Month01",
        "/home/me/Projects/DataPlatform/Headrace/LandingTables/Warehouse",
        "glue://123456789012:catalog/lake",
        "jdbc:postgresql://db.example.com:5432/lake?ssl=true",
        "thrift://metastore:9083",
        "Bearer of the table",
        "basic authentication",
        "-XX:+UseG1GC -Dlog4j.configurationFile=/etc/spark/log4j2.properties",
        "0123456789012345678901234567890123456789",
        "x" * 200,
        "a/" * 100,
    ],
)
def test_typical_values_of_users_are_not_taken_for_secrets(value: str) -> None:
    assert not holds_secret(value)
