"""The settings of a person who joins or adopts the scenario's application, and the `headrace` commands of that
person."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.interop.landed import Lake
from tests.interop.scene import APP, STREAM, CommandFailed, Scene

_COMMAND_SECONDS = 600


def empty_lake(play: Scene) -> Lake:
    home = play.fleet.folder / "lake"
    shutil.rmtree(home, ignore_errors=True)
    return Lake(home)


def settings_file(play: Scene, lake: Lake, **more: object) -> Path:
    """Write a settings file with the required settings and `more`. All other settings have Headrace's
    defaults."""
    path = play.fleet.folder / "headrace.yaml"
    text = {
        "application": APP,
        "streams": [{"name": STREAM}],
        "workers": [{"id": "h1"}],
        "landing": {"home": str(lake.home)},
        "aws": {"region": "us-east-1", "endpoint": play.fleet.endpoint},
        **more,
    }
    path.write_text(json.dumps(text))  # JSON is YAML
    return path


def settings_beside(play: Scene, lake: Lake, **kcl: str) -> Path:
    """Write a settings file that joins the live fleet as docs/use/kcl-fleets.md describes."""
    failover = f"{play.fleet.failover_seconds:.0f}s"
    lease_duration = f"{max(20.0, play.fleet.failover_seconds):.0f}s"
    beside = {"heartbeat": "lease", "failover": failover, "allow_foreign_checkpoints": True, **kcl}
    return settings_file(play, lake, kcl=beside, times={"lease_duration": lease_duration})


def adopt_live(play: Scene, lake: Lake, **kcl: str) -> None:
    config = settings_beside(play, lake, **kcl)
    play.say(headrace("adopt", "--config", str(config), "--watch", "10s", "--yes", play=play))


def headrace(*arguments: str, play: Scene) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.pipeline.cli", *arguments],
        env=play.fleet.environment,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"headrace {arguments[0]}: {done.stderr}")
    return done.stdout.strip()
