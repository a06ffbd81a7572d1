"""`headrace dev`: Dagster's UI and daemon on the user's own settings, until a signal."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.cli import unheard
from pipeline.cli.options import add_config, load
from pipeline.cli.telling import tell
from pipeline.core.words import counted

if TYPE_CHECKING:
    from datetime import timedelta

    from pipeline.cli.options import Subparsers
    from pipeline.settings import Settings
    from pipeline.settings_file import Loaded

_LOOK_EVERY = 0.5


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "dev", description="Run Dagster's UI and daemon on this machine with these settings."
    )
    add_config(parser)
    parser.add_argument("--port", type=int, default=3000, help="the UI's port on 127.0.0.1 (default: 3000)")


def run(args: argparse.Namespace) -> int:
    from pipeline.cli import services
    from pipeline.errors import BadSetting

    loaded = load(args)
    config = Path(loaded.name)
    if not services.is_free(args.port):
        raise BadSetting(f"port {args.port} is taken: name a free one with --port; nothing was started")
    home = services.dagster_home(config)
    workspace = services.prepare_dagster_home(home)
    _say(_sentence(loaded, home))
    _start_workers(loaded.settings)
    with services.stopped_by_signals(), services.spark_of_its_own(home):
        command = services.dagster_command(workspace, args.port)
        dagster = services.Group(command, env=services.environment(os.environ, config, home))
        is_up = False
        try:
            for _ in services.wait_for_ui(dagster, args.port):
                continue
            _say(f"UI at http://{services.HOST}:{args.port} - press Ctrl-C to stop")
            is_up = True
            return dagster.wait()
        except KeyboardInterrupt:
            if is_up:
                _stop_workers(loaded.settings, home)
            return 0
        finally:
            with services.undisturbed():
                _say("stopping Dagster, its runs and the local Spark")
                try:
                    _cancel_runs(home)
                finally:
                    dagster.stop()


def _start_workers(settings: "Settings") -> None:
    """Those that the end of a former `headrace dev`, or a `headrace stop`, has left stopped."""
    from pipeline.cli.stop import start_workers
    from pipeline.errors import HeadraceError, TablesMissing

    try:
        again = start_workers(settings)
    except TablesMissing:
        return  # the first tick makes them
    except HeadraceError as error:
        _say(f"whether workers were told to stop couldn't be asked: {error}")
        return
    if again:
        _say(f"{', '.join(again)} stopped before, and may work again")


def _stop_workers(settings: "Settings", home: Path) -> None:
    """While the sensors still run. A second Ctrl-C, or AWS out of reach, skips it: leases expire by themselves then."""
    from pipeline.cli.stop import stop_workers
    from pipeline.errors import HeadraceError

    _say("the workers give up their leases (Ctrl-C again skips this)")
    until = time.monotonic() + _patience(settings).total_seconds()
    with suppress(KeyboardInterrupt):
        try:
            _say(str(stop_workers(settings, wait=_patience(settings), progress=_say)))
            _let_runs_end(home, until)
        except HeadraceError as error:
            _say(f"leases weren't given up, others take them once they expire: {error}")


def _let_runs_end(home: Path, until: float) -> None:
    """One that had just begun holds no lease yet, and one that has let go of its leases has its last words to say."""
    from resources.runs import runs_in

    with runs_in(home) as runs:
        while runs.at_work() and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)


def _cancel_runs(home: Path) -> None:
    """Those that are still at work: the interrupt that comes next isn't their failure."""
    from resources.runs import runs_in

    with runs_in(home) as runs:
        canceled = runs.cancel_all("headrace dev is stopping")
    if canceled:
        _say(f"{counted(len(canceled), 'run')} still at work: canceled, and what hadn't landed is read again")


def _patience(settings: "Settings") -> "timedelta":
    """A wave may be at work; past the lease duration others would take its shards anyhow."""
    return settings.wave.seconds + settings.times.lease_duration


def _say(sentence: str) -> None:
    """Also where the terminal is gone: nobody reads it then, and Dagster is stopped all the same."""
    try:
        tell(f"headrace: {sentence}")
    except OSError:
        unheard()


def _sentence(loaded: "Loaded", home: Path) -> str:
    settings = loaded.settings
    streams = ", ".join(s.name for s in settings.streams) or "what it finds"
    workers = ", ".join(w.id for w in settings.workers)
    where = settings.aws.endpoint or settings.aws.region or "the environment's region"
    return (
        f"starting Dagster for {settings.application} ({loaded.name}): stream {streams} at {where}, "
        f"workers {workers}, table {settings.landing.table}; DAGSTER_HOME {home}"
    )
