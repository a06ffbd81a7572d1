"""Secrets are refused wherever they stand, and no message repeats them."""

import pytest

from pipeline.errors import BadSetting
from pipeline.settings import Settings
from pipeline.settings_file import parse_settings
from pipeline.settings_values import knobs, names_secret

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
def test_what_cannot_be_read_is_not_repeated(text: str):
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
def test_a_key_that_only_speaks_of_secrets_is_taken(name: str):
    text = f"workers: [{{id: w, spark: {{conf: {{{name}: x}}}}}}]"
    loaded = parse_settings(HEAD + text, {}, name="h.yaml")
    assert loaded.settings.workers[0].spark.conf == {name: "x"}


@pytest.mark.parametrize(
    "value",
    ["sc://host:15002/;user_id=me@example.com", "s3://bucket/a@b", "sqlite:///a.db", "postgresql://me@db/x"],
)
def test_a_value_that_only_looks_a_little_like_a_login_is_taken(value: str):
    loaded = parse_settings(f"{HEAD}landing: {{state: /s, catalog: {{uri: '{value}'}}}}", {}, name="h.yaml")
    assert loaded.settings.landing.catalog == {"uri": value}


def test_no_knob_of_ours_is_called_like_a_secret():
    assert [key for key, *_ in knobs(Settings) if names_secret(key)] == []
