"""Wrong settings are refused with their key, place, value and what is allowed."""

import pytest

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.settings.file import parse_settings

HEAD = "application: my-app\nstreams:\n  - name: my-stream\n"


def refusal(text: str, **environ: str) -> str:
    with pytest.raises(BadSetting) as caught:
        parse_settings(text, environ, name="h.yaml")
    return str(caught.value)


BAD_VALUES = [
    ("wave:\n  records: many", "h.yaml:5: wave.records is 'many'; allowed: a whole number, more than 0"),
    ("wave: {records: 0}", "h.yaml:4: wave.records is '0'; allowed: a whole number, more than 0"),
    ("wave: {records: -1}", "wave.records is '-1'"),
    ("wave: {records: 1.5}", "wave.records is '1.5'"),
    ("wave: {bytes: 1 MB}", "wave.bytes is '1 MB'; allowed: bytes, more than 0, such as"),
    ("wave: {bytes: 0MiB}", "wave.bytes is '0MiB'"),
    ("wave: {every: soon}", "wave.every is 'soon'; allowed: a duration, more than 0 and at most 366d"),
    ("wave: {every: 0s}", "wave.every is '0s'"),
    ("wave: {every: 5s1m}", "wave.every is '5s1m'"),
    ("wave: {every: 1:30}", "wave.every is '1:30'"),
    ("wave: {every: 367d}", "wave.every is '367d'"),
    ("wave: {every: 99999999999999999999d}", "wave.every is '99999999999999999999d'"),
    ("wave: {every: ''}", "wave.every is ''"),
    ("wave: {every: [1]}", "wave.every is a list; allowed: a duration"),
    ("coordination: {create: maybe}", "coordination.create is 'maybe'; allowed: auto | never"),
    ("coordination: {deletion_protection: yes}", "deletion_protection is 'yes'; allowed: true | false"),
    ("aws: {region: ''}", "aws.region is ''; allowed: text that isn't empty"),
    ("aws: eu-west-1", "h.yaml:4: aws is a single value; allowed: `name: value` pairs"),
    ("aws: [region]", "h.yaml:4: aws is a list; allowed: `name: value` pairs"),
    ("workers: w1", "h.yaml:4: workers is a single value; allowed: a list"),
    ("workers: [w1]", "h.yaml:4: workers.0 is a single value; allowed: `name: value` pairs"),
    ("workers:\n  - id: w1\n  - spark: {master: yarn}", "h.yaml:6: workers.1.id is missing"),
    ("workers:\n  -", "h.yaml:5: workers.0.id is missing"),
    ("landing: {catalog: {type: }}", "h.yaml:4: landing.catalog.type is empty"),
    ("landing: {catalog: {type: [a]}}", "h.yaml:4: landing.catalog.type is a list"),
    ("landing: {catalog: {[a]: b}}", "h.yaml:4: a name in landing.catalog is a list"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_VALUES)
def test_the_error_for_a_wrong_value_has_key_place_value_and_what_is_allowed(text: str, expected: str):
    assert expected in refusal(HEAD + text)


@pytest.mark.parametrize(
    "stamp", ["2026-01-31", "2026-01-31T00:00:00", "yesterday", "1769817600", "2026-13-01T00:00:00Z"]
)
def test_a_timestamp_needs_a_time_zone(stamp: str):
    message = refusal(f"{HEAD}    initial_position: AT_TIMESTAMP\n    timestamp: {stamp}")
    assert f"h.yaml:5: streams.0.timestamp is {stamp!r}; allowed: a moment with its time zone" in message


def test_a_long_value_is_shortened_in_the_error():
    assert len(refusal(f"{HEAD}wave: {{records: {'x' * 5000}}}")) < 200


BAD_NAMES = [
    ("aplication: x", "h.yaml:4: unknown key 'aplication' in the top level: did you mean 'application'?"),
    ("wave:\n  record: 5", "h.yaml:5: unknown key 'record' in wave: did you mean 'records'?"),
    ("region: eu-west-1", "unknown key 'region' in the top level: did you mean aws.region?"),
    ("failoverTimeMillis: 10000", "did you mean times.lease_duration?"),
    ("wave: {zzz: 1}", "unknown key 'zzz' in wave; known: records, bytes, seconds, every"),
    ("wave: {records: 1}\nwave: {records: 2}", "h.yaml:5: wave is given twice, first in h.yaml:4: keep one"),
    ("wave:\n  records: 1\n  records: 1", "h.yaml:6: wave.records is given twice, first in h.yaml:5"),
    ("landing: {catalog: {uri: a, uri: b}}", "h.yaml:4: landing.catalog.uri is given twice"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_NAMES)
def test_the_error_for_an_unknown_name_has_its_place_and_the_most_similar_name(text: str, expected: str):
    assert expected in refusal(HEAD + text)


BAD_VARIABLES = [
    ("HEADRACE__AWS__REGIO", "did you mean HEADRACE__AWS__REGION?"),
    ("HEADRACE__AWS", "did you mean HEADRACE__AWS__REGION?"),
    ("HEADRACE__aws__region", "stands for no setting"),
    ("HEADRACE__STREAMS__0__NAM", "did you mean HEADRACE__STREAMS__0__NAME?"),
    ("HEADRACE__WORKERS__1__SPARK__REMOT", "did you mean HEADRACE__WORKERS__1__SPARK__REMOTE?"),
    ("HEADRACE__STREAMS__NAME", "did you mean HEADRACE__STREAMS__0__NAME?"),
    ("HEADRACE__STREAMS__00__NAME", "did you mean HEADRACE__STREAMS__0__NAME?"),
    ("HEADRACE__", "did you mean"),
    ("HEADRACE__QQQQQQQQQQQQ", "headrace config --doc"),
    ("HEADRACE__LANDING__CATALOG__URI", "HEADRACE__LANDING__CATALOG='{name: value}'"),
    ("HEADRACE__WORKERS__3__ID", "is entry 3 of workers, but the next free entry is 1"),
    ("HEADRACE__WORKERS__999999999999__ID", "HEADRACE__WORKERS__999999999999__ID"),
]


@pytest.mark.parametrize(("variable", "expected"), BAD_VARIABLES)
def test_the_error_for_an_unknown_variable_names_the_most_similar_one(variable: str, expected: str):
    message = refusal(HEAD, **{variable: "x"})
    assert message.startswith(variable)
    assert expected in message


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("HEADRACE__WAVE__RECORDS", "many", "HEADRACE__WAVE__RECORDS: wave.records is 'many'; allowed"),
        ("HEADRACE__LANDING__CATALOG", "rest", "landing.catalog is a single value; allowed: `name: value`"),
        ("HEADRACE__LANDING__CATALOG", "{a", "HEADRACE__LANDING__CATALOG:1: this isn't YAML"),
        ("HEADRACE__LANDING__CATALOG", "{a: [b]}", "HEADRACE__LANDING__CATALOG: landing.catalog.a is a list"),
        ("HEADRACE__APPLICATION", "a", "HEADRACE__APPLICATION: application is 'a'"),
    ],
)
def test_a_wrong_value_in_a_variable_is_refused_like_one_in_the_file(
    variable: str, value: str, expected: str
):
    assert expected in refusal(HEAD, **{variable: value})


BAD_FILES = [
    ("", "h.yaml:1: the file is empty; the smallest is: {application"),
    ("# nothing\n", "the file is empty"),
    ("- a\n", "h.yaml: the file is a list; allowed: `name: value` pairs"),
    ("text", "h.yaml: the file is a single value"),
    (
        "a: 1\n\tb: 2\n",
        "h.yaml:2: this isn't YAML: found character '\\t' that cannot start any token (indent with",
    ),
    ("a: [1\nb: 2\n", "h.yaml:2: this isn't YAML"),
    ("a: 1\n---\na: 2\n", "h.yaml:2: this isn't YAML"),
    ("a: 1\nb: \x00\n", "h.yaml:2: this isn't YAML: the line has a character that YAML doesn't allow"),
    ("a: *gone\n", "h.yaml:1: this isn't YAML: found undefined alias"),
    ("[" * 1_500, "h.yaml: the YAML is nested far deeper than any setting"),
    ("streams: [{name: s}]\n", "h.yaml: application is missing"),
    ("application: my-app\n", "h.yaml: streams is missing"),
    ("application: my-app\nstreams:\n", "h.yaml:2: streams is missing"),
    ("application: my-app\nstreams: []\n", "h.yaml:2: streams is missing or empty"),
    ("application: my-app\nstreams: [{initial_position: LATEST}]\n", "h.yaml:2: streams.0.name is missing"),
    ("a: &a [*a]\n", "unknown key 'a'"),
    ("application: my-app\nstreams: &s [*s]\n", "h.yaml:2: streams.0 is a list"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_FILES)
def test_a_file_that_is_no_settings_file_is_refused_with_its_line(text: str, expected: str):
    assert expected in refusal(text)
