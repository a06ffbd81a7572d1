"""`headrace dev`: Dagster's UI and daemon with the user's settings, until a signal."""

import argparse
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.pipeline.cli import discard_output
from headrace.pipeline.cli.options import add_config, load, port_number
from headrace.pipeline.cli.telling import tell
from headrace.pipeline.core.words.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta
    from typing import NoReturn

    from headrace.pipeline.cli.beside.holding import Hold
    from headrace.pipeline.cli.beside.services import Group
    from headrace.pipeline.cli.options import Subparsers
    from headrace.pipeline.settings.file import Loaded
    from headrace.pipeline.settings.model import Settings

_LOOK_EVERY = 0.5
_TELL_EVERY = 20.0


def add(subparsers: "Subparsers") -> None:
    parser = subparsers.add_parser(
        "dev",
        description="Run Dagster's UI and daemon on this machine with these settings, until Ctrl-C or SIGTERM "
        "(exit code 0). When one of Dagster's processes dies, the command stops the others and exits "
        "with 75, so that a supervisor can start it again.",
    )
    add_config(parser)
    parser.add_argument(
        "--port", type=port_number, default=3000, help="port of Dagster's UI on 127.0.0.1 (default: 3000)"
    )


def run(args: argparse.Namespace) -> int:
    from headrace.pipeline.cli.beside.holding import Holder, home_held
    from headrace.pipeline.cli.beside.services import HOST, dagster_home, stopped_by_signals
    from headrace.pipeline.lake.files.private_files import umask

    loaded = load(args)
    home, private = dagster_home(Path(loaded.name)), loaded.settings.private_files
    holder = Holder(command="headrace dev", ui=f"http://{HOST}:{args.port}")
    with umask(private=private), stopped_by_signals(), home_held(home, holder, private=private) as hold:
        return _dev(loaded, hold, home, port=args.port)


def _dev(loaded: "Loaded", hold: "Hold", home: Path, *, port: int) -> int:
    from headrace.pipeline.cli.beside import services
    from headrace.pipeline.cli.beside.beater_beside import beater_beside
    from headrace.pipeline.cli.beside.console_beside import console_beside
    from headrace.pipeline.cli.beside.other_dagster import require_alone
    from headrace.pipeline.cli.beside.own_spark import spark_of_its_own
    from headrace.pipeline.errors import BadSetting

    # Before the look for others: a Dagster that a killed `headrace dev` left isn't somebody else's.
    _stop_former(hold, home)
    require_alone(home, say=_say)
    if not services.is_port_free(port):
        raise BadSetting(f"port {port} is taken: name a free port with --port; nothing was started")
    config = Path(loaded.name)
    workspace = services.prepare_dagster_home(home)
    _say(_sentence(loaded, home))
    _start_workers(loaded.settings)
    _tell_of_missing_streams(loaded.settings)
    try:
        # Around Dagster, so that the Spark server outlives the runs that use it.
        with spark_of_its_own(home, config):
            env = services.environment(os.environ, config, home)
            _warm(env)
            dagster = services.Group(
                services.dagster_command(workspace, port), env=env, relay=services.relay_command()
            )
            # At once: if this process is killed, the next command finds Dagster by this number.
            hold.has_dagster(dagster.pid)
            with (
                beater_beside(loaded.settings, config, env=env, say=_say),
                console_beside(loaded.settings, dagster=f"http://{services.HOST}:{port}", say=_say),
            ):
                _supervise(dagster, loaded.settings, home, port=port)
    except KeyboardInterrupt:
        return 0


def _warm(env: "Mapping[str, str]") -> None:
    from headrace.pipeline.cli.beside.own_spark import warmed

    try:
        warmed(env)
    except KeyboardInterrupt:
        _say("interrupted before Dagster was started; the local Spark is stopped, and no record was read")
        raise


def _supervise(dagster: "Group", settings: "Settings", home: Path, *, port: int) -> "NoReturn":
    """Wait for a signal or for the death of a process, then stop Dagster."""
    from headrace.pipeline.cli.beside import services
    from headrace.pipeline.cli.beside.home_room import HomeRoom
    from headrace.pipeline.cli.live.watching import until_a_process_dies
    from headrace.resources.daemons import forget_beats

    room = HomeRoom(home, _say)
    is_up = False
    try:
        last_line = 0.0
        for passed in services.wait_for_ui(dagster, port):
            if passed - last_line >= _TELL_EVERY:
                _say(f"still waiting for Dagster's UI, for {passed:.0f} s so far")
                last_line = passed
        # Before the line is printed: whoever reads the line may press Ctrl-C at once.
        is_up = True
        _say(f"Dagster's UI at http://{services.HOST}:{port} - press Ctrl-C to stop")
        until_a_process_dies(dagster, room.look)
    except KeyboardInterrupt:
        if is_up:
            _stop_workers(settings, home)
        raise
    finally:
        with services.undisturbed():
            # Dagster's commands print that word where they are asked to end before they have begun to work.
            starting = (
                "" if is_up else "; Dagster is still starting, and may say `Aborted!`, which is no error"
            )
            _say(f"stopping Dagster, its runs and the local Spark{starting}")
            try:
                # Before Dagster is stopped, which would mark them as failed.
                _noting(home, _cancel_runs)
            finally:
                dagster.stop(is_starting=not is_up)
                room.look()
                _noting(home, forget_beats)


def _noting(home: Path, work: "Callable[[Path], None]") -> None:
    """Do something in Dagster's storage. A storage that can't be opened, as where the disk is full, is told in a sentence:
    Dagster has to be stopped all the same."""
    try:
        work(home)
    except Exception as error:  # noqa: BLE001 -- of a storage of any kind
        reason = next(iter(str(error).splitlines()), "")
        _say(
            f"Dagster's storage in {home} can't be used ({type(error).__name__}: {reason}), so Dagster may show runs of this time as failed. "
            "No landed record is touched"
        )


def _stop_former(hold: "Hold", home: Path) -> None:
    """Stop the Dagster of a `headrace dev` that SIGKILL ended: its sensors would tick beside those of the new one."""
    from headrace.pipeline.cli.beside.services import stop_orphans
    from headrace.resources.daemons import forget_beats

    former = hold.former
    if former and former.dagster and stop_orphans(former.dagster, home):
        forget_beats(home)
        _say(
            f"an earlier `{former.command}` (process {former.pid}) was killed; "
            "the Dagster that it left running was stopped"
        )


def _start_workers(settings: "Settings") -> None:
    """Let workers work again that an earlier `headrace dev` or `headrace stop` has stopped."""
    from headrace.pipeline.cli.stop import start_workers
    from headrace.pipeline.errors import HeadraceError, TablesMissing

    try:
        again = start_workers(settings)
    except TablesMissing:
        # The leader's first tick makes the tables.
        return
    except HeadraceError as error:
        _say(f"can't read whether `headrace stop` stopped the workers: {error}")
        return
    if again:
        _say(f"{', '.join(again)}: stopped by an earlier command, now allowed to work again")


def _tell_of_missing_streams(settings: "Settings") -> None:
    """A name that is mistyped is told before Dagster starts, whose log has much else to tell."""
    from headrace.pipeline.app.aws_adapters import AwsAdapters
    from headrace.pipeline.errors import HeadraceError, Unknown

    source = AwsAdapters(settings).source("dev")
    try:
        for stream in settings.streams:
            try:
                source.describe(stream.name)
            except Unknown as error:
                _say(f"{error}. Dagster is started all the same: reading begins once the stream is there")
    except HeadraceError as error:
        _say(f"can't read whether the streams are there: {error}")


def _stop_workers(settings: "Settings", home: Path) -> None:
    """Let the workers give up their leases, while their sensors still run to do it.

    A second Ctrl-C, or AWS out of reach, skips this step: the leases then expire after the lease duration.
    """
    from headrace.pipeline.cli.stop import stop_workers
    from headrace.pipeline.errors import HeadraceError

    _say("the workers are giving up their leases (Ctrl-C again skips this)")
    until = time.monotonic() + _patience(settings).total_seconds()
    with suppress(KeyboardInterrupt):
        try:
            _say(str(stop_workers(settings, wait=_patience(settings), progress=_say)))
            _noting(home, lambda home: _let_runs_end(home, until))
        except HeadraceError as error:
            _say(
                f"the workers didn't give up their leases; other workers take the leases once they expire: {error}"
            )


def _let_runs_end(home: Path, until: float) -> None:
    """Wait for runs that hold no lease: a run that has just begun, or one that still writes its last events
    to Dagster."""
    from headrace.resources.runs import all_runs_in

    with all_runs_in(home) as runs:
        while runs.at_work() and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)


def _cancel_runs(home: Path) -> None:
    """Mark the runs that are still at work as canceled, else Dagster shows the interrupt that follows as
    their failure."""
    from headrace.resources.runs import all_runs_in

    with all_runs_in(home) as runs:
        canceled = runs.cancel_all("headrace dev is stopping")
    if canceled:
        _say(
            f"{counted(len(canceled), 'run')} still at work: canceled; "
            "records that hadn't landed are read again after the next start"
        )


def _patience(settings: "Settings") -> "timedelta":
    """One wave may be at work. After one lease duration more, other workers would take its shards in any case."""
    return settings.wave.seconds + settings.times.lease_duration


def _say(sentence: str) -> None:
    """Print a line. A terminal that was closed is no error: Dagster has to be stopped all the same."""
    try:
        tell(f"headrace: {sentence}")
    except OSError:
        discard_output()


def _sentence(loaded: "Loaded", home: Path) -> str:
    settings = loaded.settings
    streams = ", ".join(s.name for s in settings.streams) or "all that `discovery` finds"
    workers = ", ".join(w.id for w in settings.workers)
    place = settings.aws.endpoint or settings.aws.region or "the environment's region"
    return (
        f"starting Dagster for {settings.application} ({loaded.name}): stream {streams} at {place}, "
        f"workers {workers}, table {settings.landing.table}; DAGSTER_HOME {home}"
    )
