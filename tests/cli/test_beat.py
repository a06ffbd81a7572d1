"""`headrace beat`, and the child that `headrace dev` starts of it."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from pathlib import Path

from headrace.pipeline.cli import main
from headrace.pipeline.cli.beside.beater_beside import beat_command, beater_beside, keep_beating
from headrace.pipeline.settings.file import read_settings
from tests.eventually import eventually

SETTINGS = """\
application: app
streams: [{name: orders}]
workers: [{id: w1}]
aws: {region: eu-west-1}
"""
JOINED = "kcl: {failover: 10s, beat: process, heartbeat: lease, allow_foreign_checkpoints: true}\n"


def a_file(folder: Path, more: str = "") -> Path:
    path = folder / "headrace.yaml"
    path.write_text(SETTINGS + more)
    return path


def test_it_is_refused_where_the_ticks_beat(tmp_path, capsys):
    assert main(["beat", "--config", str(a_file(tmp_path))]) == 2
    assert "so the workers' ticks beat, and nothing was started: say" in capsys.readouterr().err


def test_dev_starts_none_where_the_ticks_beat(tmp_path):
    before = threading.active_count()
    with beater_beside(read_settings(a_file(tmp_path), {}).settings, tmp_path, env={}, say=print):
        assert threading.active_count() == before


def test_dev_starts_it_with_its_settings_and_an_input_that_ends_with_dev(tmp_path):
    config = a_file(tmp_path, JOINED)
    assert beat_command(config)[3:] == ["beat", "--config", str(config), "--ends-with-input"]


def test_a_child_that_dies_is_started_again_and_the_last_one_ends_with_dev(tmp_path):
    births = tmp_path / "births"
    # The first child dies at once, the second lives until its input ends.
    code = f"import sys; f = open({str(births)!r}, 'a'); f.write('x'); f.close(); sys.exit(3) if len(open({str(births)!r}).read()) < 2 else sys.stdin.read()"
    over, said = threading.Event(), list[str]()
    watcher = threading.Thread(
        target=keep_beating, args=([sys.executable, "-c", code], os.environ, over, said.append)
    )
    watcher.start()
    eventually(
        lambda: births.exists() and births.read_text() == "xx", "the child was started again", within=60
    )
    over.set()
    watcher.join(60)
    assert not watcher.is_alive()
    assert said == ["`headrace beat` ended with code 3; it is started again"]


def test_it_beats_until_its_input_ends_and_says_what_it_waits_for(aws, tmp_path, capsys, monkeypatch):
    name = f"app-{uuid.uuid4().hex[:8]}"
    text = SETTINGS.replace("application: app", f"application: {name}").replace(
        "aws: {region: eu-west-1}", f"aws: {{region: {aws.region}, endpoint: '{aws.endpoint}'}}"
    )
    path = tmp_path / "headrace.yaml"
    path.write_text(text + JOINED)
    read, write = os.pipe()
    said = threading.Event()

    def tell(line: str) -> None:
        print(line)
        said.set()

    def live_on() -> None:
        said.wait(60)
        os.close(write)

    monkeypatch.setattr("headrace.pipeline.cli.beat.tell", tell)
    parent = threading.Thread(target=live_on)
    parent.start()
    with os.fdopen(read) as given:
        monkeypatch.setattr(sys, "stdin", given)
        assert main(["beat", "--config", str(path), "--ends-with-input"]) == 0
    parent.join()
    assert (
        f"{name}, worker w1: silent, because there are no coordination tables yet" in capsys.readouterr().out
    )
