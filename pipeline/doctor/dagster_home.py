"""A check: whether Dagster's instance is set up as Headrace needs it, and whether its daemon is running."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from headrace.pipeline.doctor.case import Case
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.resources.home_room import is_writable, why_no_room

_NAME = "Dagster"
_FILE = "dagster.yaml"
# Seconds. A daemon writes a heartbeat every 30 s.
_FRESH: Final = 90.0
_COMPARE = "Compare it with the dagster.yaml of Headrace, which says the reason of each value"


def dagster_is_set_up(case: Case) -> Iterator[Diagnosis]:
    home = case.environ.get("DAGSTER_HOME")
    if not home:
        yield Diagnosis(
            _NAME,
            Health.NOTE,
            "DAGSTER_HOME isn't set in this shell: Dagster then uses a temporary storage that knows no partition",
            "Set it for every process of Dagster, and here to have it checked (`headrace dev` has the folder .dagster)",
        )
        return
    if (trouble := _place_trouble(Path(home))) is not None:
        yield trouble
        return
    file = Path(home) / _FILE
    if not file.is_file():
        yield Diagnosis(
            _NAME,
            Health.ILL,
            f"{file} isn't there, so that Dagster uses its own defaults",
            "`headrace dev` makes it, and there is nothing to do before it. Elsewhere copy Headrace's dagster.yaml to it "
            "(docs/start/in-your-project.md, Merge dagster.yaml)",
        )
        return
    workers = 1 if case.settings is None else len(case.settings.workers)
    troubles = list(_troubles(_read(file), workers))
    for health, sentence in troubles:
        yield Diagnosis(_NAME, health, f"{file}: {sentence}", _COMPARE)
    if not troubles:
        yield Diagnosis(_NAME, Health.WELL, f"{file} is as Headrace needs it")
    yield from _daemon(Path(home))


def _place_trouble(home: Path) -> Diagnosis | None:
    """What is wrong with the folder itself. Dagster's storage would answer it with an error of its database."""
    if not home.is_dir():
        return None
    if not is_writable(home):
        return Diagnosis(
            _NAME,
            Health.ILL,
            f"DAGSTER_HOME {home} can't be written by this user, or its file system is read-only, so that no tick and no run can begin",
            "Give this user the right to write there, mount it for writing, or set DAGSTER_HOME to another folder",
        )
    if (why := why_no_room(home)) is not None:
        return Diagnosis(
            _NAME,
            Health.ILL,
            f"DAGSTER_HOME {home} is full: {why}, so that ticks and runs can't begin",
            "Make room, or set DAGSTER_HOME to a folder on another disk. No landed record is touched",
        )
    return None


def _read(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        # Dagster itself names the mistake when it starts.
        return {}
    return found if isinstance(found, dict) else {}


def _troubles(config: Mapping[str, Any], workers: int) -> Iterator[tuple[Health, str]]:
    # Here, because it imports Dagster, which takes a second.
    from headrace.resources.runs import WORKER_TAG

    sensors = _block(config, "sensors")
    if not sensors.get("use_threads"):
        yield (
            Health.ILL,
            "sensors.use_threads isn't true: a slow tick holds up the others, and a worker that can't beat counts as dead",
        )
    elif sensors.get("num_workers", 4) < workers + 2:
        yield (
            Health.NOTE,
            f"sensors.num_workers is {sensors.get('num_workers', 4)}, for {workers} workers, a leader and typed tables",
        )
    coordinator = _block(config, "run_coordinator")
    # Dagster from 1.10 on has a block `concurrency` for the same values.
    limits = {**_block(coordinator, "config"), **_block(_block(config, "concurrency"), "runs")}
    tags = limits.get("tag_concurrency_limits") or ()
    if not any(isinstance(limit, dict) and limit.get("key") == WORKER_TAG for limit in tags):
        yield (
            Health.NOTE,
            f"no tag_concurrency_limits for {WORKER_TAG}: Dagster may start runs that the claims then refuse",
        )
    most = limits.get("max_concurrent_runs", 10)
    if isinstance(most, int) and 0 <= most <= workers:
        yield Health.ILL, f"max_concurrent_runs is {most}, and each of {workers} workers has a run of its own"
    monitoring = _block(config, "run_monitoring")
    if not monitoring.get("enabled"):
        yield (
            Health.ILL,
            "run_monitoring isn't enabled: a run whose host died stays started for ever, and its worker starts no other",
        )
    if "sensor" not in _block(config, "retention"):
        yield Health.NOTE, "retention.sensor isn't set: ticks are kept for ever, 17,000 a day for each sensor"


def _block(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    block = config.get(name)
    return block if isinstance(block, dict) else {}


def _daemon(home: Path) -> Iterator[Diagnosis]:
    from headrace.resources.daemons import beats_in

    if not (home / "schedules").exists() and "storage" not in _read(home / _FILE):
        # An instance that nobody has opened yet. Opening it would make its files.
        yield Diagnosis(
            _NAME,
            Health.NOTE,
            "no daemon has worked here yet",
            "Start `headrace dev`, or `dagster-daemon run`",
        )
        return
    try:
        beats = beats_in(home)
    except Exception as error:  # noqa: BLE001 - of a storage of any kind
        yield Diagnosis(
            _NAME,
            Health.ILL,
            f"Dagster's storage can't be opened ({type(error).__name__}: {error})",
            "Check `storage` in dagster.yaml",
        )
        return
    age = time.time() - max(beats.values(), default=0.0)
    if beats and age <= _FRESH:
        yield Diagnosis(_NAME, Health.WELL, f"Dagster's daemon lives (a heartbeat {age:.0f} s ago)")
    else:
        yield Diagnosis(
            _NAME,
            Health.ILL,
            "Dagster's daemon has shown no heartbeat for a minute and a half: no sensor ticks, and nothing lands",
            "Start `headrace dev`, or `dagster-daemon run` with this DAGSTER_HOME",
        )
