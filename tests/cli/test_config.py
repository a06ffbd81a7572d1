"""`headrace config` shows the settings in effect, and where each came from."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.cli import main

CANARY = "c4n4ry-of-the-mine"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "headrace.yaml"
    path.write_text(
        "application: my-app\nstreams:\n  - name: s\nwave:\n  bytes: 64MiB\nlanding: {catalog: {type: rest}, state: /states}\n",
        encoding="utf-8",
    )
    return path


def test_each_setting_is_a_line_with_value_and_source(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("HEADRACE__AWS__REGION", "eu-west-1")
    assert main(["config"]) == 0
    lines = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert lines["application"] == ["my-app", "headrace.yaml:1"]
    assert lines["wave.bytes"] == ["64MiB", "headrace.yaml:5"]
    assert lines["landing.catalog.type"] == ["rest", "headrace.yaml:6"]
    assert lines["aws.region"] == ["eu-west-1", "HEADRACE__AWS__REGION"]
    assert lines["times.linger"] == ["5m", "default"]
    assert lines["aws.profile"] == ["-", "default"]


def test_with_json_the_output_has_the_same_settings(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["config", "--json", "--config", str(file)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["file"] == str(file)
    assert shown["settings"]["wave.bytes"] == {"value": "64MiB", "source": f"{file}:5"}
    assert shown["settings"]["aws.profile"] == {"value": None, "source": "default"}


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize(
    "bad",
    [
        f"aws: {{secret_access_key: {CANARY}}}",
        f"password: *{CANARY}",
        f"landing2: {{token: {CANARY}}}",
        f"aws: {{endpoint: 'https://a:{CANARY}@b'}}",
    ],
)
def test_a_secret_is_never_printed(file: Path, form: list[str], bad: str, capsys: pytest.CaptureFixture[str]):
    file.write_text(f"{file.read_text(encoding='utf-8')}{bad}\n", encoding="utf-8")
    assert main(["config", *form]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert CANARY not in err
    assert all(line.startswith("headrace: headrace.yaml:7: ") for line in err.splitlines())
    assert err.count("\n") == (2 if "landing2" in bad else 1)


def test_other_variables_of_the_environment_are_not_shown(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("PYICEBERG_CATALOG__HEADRACE__TOKEN", CANARY)
    assert main(["config"]) == 0
    assert CANARY not in capsys.readouterr().out


def test_a_missing_file_is_one_line_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADRACE_CONFIG", raising=False)
    assert main(["config"]) == 2
    assert "the smallest is: {application: my-app" in capsys.readouterr().err


def test_the_settings_document_is_updated_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    document = tmp_path / "d.md"
    before, after = (
        "# Mine\n\n<!-- knobs: made by `headrace config --doc docs/reference/settings.md` -->",
        "<!-- end of knobs -->\nmore\n",
    )
    document.write_text(f"{before}\nan older table\n{after}", encoding="utf-8")
    assert main(["config", "--doc", str(document)]) == 0
    text = document.read_text(encoding="utf-8")
    assert text.startswith(before)
    assert text.endswith(after)
    assert "an older table" not in text
    assert main(["config", "--doc"]) == 0
    assert capsys.readouterr().out.strip() in text


def test_derived_periods_follow_the_settings_and_name_their_formulas(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "headrace.yaml"
    file.write_text(
        "{application: app, streams: [{name: s}], times: {leader_tick: 10s, cleanup: 10m}, wave: {seconds: 3m}}"
    )
    assert main(["config", "--config", str(file), "--derived"]) == 0
    words = {line[:20].strip(): line[20:].split() for line in capsys.readouterr().out.splitlines()}
    assert words["leader lock"][:5] == ["40s", "=", "4", "x", "times.leader_tick"]
    assert words["garbage clean-up"][0] == "1h"
    assert words["hung after"][0] == "6m"
    assert words["run beat"][0] == "5s"
    assert "taking" not in words


@pytest.mark.parametrize(
    ("region", "told"),
    [
        (
            "eu-wst-1",
            "headrace.yaml:7: aws.region is 'eu-wst-1', and the installed botocore knows no such region: did you mean eu-west-1?",
        ),
        ("eu-west-1", ""),
        ("atlantis", "ap-east-1"),
    ],
)
def test_a_region_that_aws_doesnt_list_is_doubted_with_the_nearest_name(
    file: Path, capsys: pytest.CaptureFixture[str], region: str, told: str
):
    file.write_text(f"{file.read_text()}aws: {{region: {region}}}\n")
    # AWS opens regions, and stand-ins of AWS have names of their own: no error.
    assert main(["config"]) == 0
    output = capsys.readouterr()
    assert told in output.err
    assert bool(told) == bool(output.err)
    assert "aws.region" in output.out
    main(["doctor", "--offline"])
    assert told in capsys.readouterr().out
