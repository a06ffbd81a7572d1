"""Runs the demo: starts the stand-in, Spark, Dagster and the producers, and watches the records land."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from headrace.pipeline.aws.reading.kinesis import KinesisSource
from headrace.pipeline.cli.beside.own_spark import WARM
from headrace.pipeline.cli.beside.services import (
    HOST,
    Group,
    dagster_command,
    environment,
    prepare_dagster_home,
    wait_for_ui,
)
from headrace.pipeline.cli.live.watching import Watch, require_alive
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.demo.evidence import replayed_shard
from headrace.pipeline.demo.home import (
    APPLICATION,
    FIRST,
    NEW_COLUMN,
    SECOND,
    STREAM,
    TARGET,
    TYPED,
    Home,
    surroundings,
)
from headrace.pipeline.demo.producers import ONE_TRY, PRODUCERS, Producers
from headrace.pipeline.demo.progress import DemoProgress, Stillness, progress
from headrace.pipeline.demo.reading import read_puts, the_table, write_puts, write_shards
from headrace.pipeline.demo.reshards import Reshards, is_stream_active
from headrace.pipeline.errors import HeadraceError, ProcessDied
from headrace.pipeline.local.endpoint import READY, LocalAws

_SHARDS = 4
# Records a second: slow enough that producers still put records while others land, so that reshards happen
# in between.
_PACE = 625.0
_LEAST_SECONDS = 20.0
_TELL_EVERY = 2.0
_LOOK_EVERY = 1.0
_STAND_IN_STARTS_WITHIN = 30.0

_TRIES = 5

_BEGAN = time.monotonic()


def say(sentence: object) -> None:
    print(f"{time.monotonic() - _BEGAN:4.0f} s  {sentence}", flush=True)


class Show:
    def __init__(self, home: Home, started: ExitStack, *, records: int, patience: float) -> None:
        """`started` stops the processes in the reverse order of their start."""
        self.dagster: Group
        self._aws: LocalAws
        self._home = home
        self._started = started
        self._records = records
        self._patience = patience

    def run(self, port: int) -> str | None:
        """Run until every record has landed. Returns what went wrong, if anything did.

        Writes the list of put records and of shards into the home folder, from which the summary is made.
        """
        say(
            f"putting {counted(self._records, 'record')} into a stream of {_SHARDS} shards; "
            f"all files are in {self._home.folder}"
        )
        aws = self._aws = self._stand_in()
        self._dagster(aws, port)
        client = self._a_stream(aws)
        said_at = -_TELL_EVERY
        for passed in wait_for_ui(self.dagster, port):
            if passed - said_at >= _TELL_EVERY:
                say("Dagster and Spark are starting")
                said_at = passed
        ui = f"http://{HOST}:{port}"
        say(f"Dagster's UI is at {ui}, the shards at {ui}/assets/{APPLICATION}/records?view=partitions")
        seconds = max(_LEAST_SECONDS, self._records / _PACE)
        producers = Producers(client, STREAM, records=self._records, seconds=seconds)
        # The stack calls in the reverse order: the sentence first, then the producers, then the processes.
        self._started.callback(producers.stop)
        self._started.callback(say, "stopping the producers, Dagster, Spark and the stand-in")
        trouble = self._watch(producers, Reshards(client, STREAM))
        producers.stop()
        source = KinesisSource(client)
        write_puts(self._home.puts, producers.puts)
        write_shards(self._home.shards, source.list_shards(source.describe(STREAM).stream))
        return trouble

    def parse(self) -> int:
        """Run `headrace parse`, so that the typed table has all records. Dagster's sensor for typed tables ticks
        every 30 s. Where a run of Dagster has just committed the same records, the command is tried again.
        """
        code, said = self._insist("parse")
        for line in said:
            say(line)
        return code

    def process(self) -> int:
        """Run `headrace processor run`, so that the record processor has got all records."""
        code, said = self._insist("processor", "run")
        for line in said:
            say(line)
        return code

    def replay(self) -> int:
        """Give the typed table's schema one more column, and parse the records of one shard again, so that
        their rows have it: the work of `headrace window create` and `headrace window run`. Returns an exit
        code.
        """
        shard = replayed_shard(read_puts(self._home.puts))
        if shard is None:
            return 1
        self._home.write_settings(self._aws.endpoint, SECOND)
        say(
            f"the schema of {TYPED} gets the column {NEW_COLUMN}; "
            f"a window of the records of {shard} is parsed again, so that their rows have it"
        )
        code, said = self._insist("window", "create", "--shard", shard, "--replace", TARGET)
        if code == 0:
            window = said[0].removeprefix("window ").split(":")[0]
            code, said = self._insist("window", "run", window)
            for line in said:
                if line.startswith(f"{window}: "):
                    say(f"window {line}")
        if code:
            say(f"the window wasn't replayed as a whole; the log: {self._home.log('window')}")
        return code

    def prove(self) -> int:
        """Run `headrace prove`. Returns its exit code."""
        code, said = self._command("prove")
        print(
            "What `headrace prove` says of the same table, by its ledger and Kinesis's list of shards:",
            "",
            sep="\n",
        )
        print(*(f"  {line}" for line in said), "", sep="\n", flush=True)
        return code

    def _insist(self, *command: str) -> tuple[int, list[str]]:
        """Run a command, and again for some times as long as its exit code says to try later."""
        for _ in range(_TRIES):
            code, said = self._command(*command)
            if code != os.EX_TEMPFAIL:
                break
        return code, said

    def _command(self, name: str, *more: str) -> tuple[int, list[str]]:
        """Run a command of `headrace` as a user would, on the Spark that the demo has started. Returns its
        exit code and its lines."""
        env = environment(surroundings(self._aws.endpoint), self._home.settings, self._home.dagster)
        with self._home.log(name).open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "headrace.pipeline.cli", name, *more],
                env=env,
                cwd=self._home.folder,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
        return done.returncode, done.stdout.splitlines()

    # --- starting -------------------------------------------------------------------------------------------

    def _stand_in(self) -> LocalAws:
        log = self._home.log("stand-in")
        command = [sys.executable, "-m", "headrace.pipeline.local", "--port", "0", "--while-stdin"]
        served = self._start(command, surroundings(""), name="stand-in")
        until = time.monotonic() + _STAND_IN_STARTS_WITHIN
        while not (
            lines := [li for li in log.read_text(encoding="utf-8").splitlines() if li.startswith(READY)]
        ):
            if served.code is not None or time.monotonic() > until:
                raise HeadraceError(f"the AWS stand-in didn't start; its log: {log}")
            time.sleep(0.05)
        return LocalAws(lines[0].removeprefix(READY).split()[0])

    def _dagster(self, aws: LocalAws, port: int) -> None:
        """Start Spark and Dagster at the same time, so that no run has to wait for Spark."""
        self._home.write_settings(aws.endpoint, FIRST)
        workspace = prepare_dagster_home(self._home.dagster)
        base = surroundings(aws.endpoint)
        self._start(WARM, base, name="spark")
        self.dagster = self._start(dagster_command(workspace, port), base, name="dagster")

    def _start(self, command: list[str], base: dict[str, str], *, name: str) -> Group:
        env = environment(base, self._home.settings, self._home.dagster)
        group = Group(command, env=env, cwd=self._home.folder, log=self._home.log(name))
        self._started.callback(group.stop)
        return group

    def _a_stream(self, aws: LocalAws) -> Any:
        client = aws.client("kinesis", config=ONE_TRY)
        client.create_stream(StreamName=STREAM, ShardCount=_SHARDS)
        while not is_stream_active(client, STREAM):
            time.sleep(0.1)
        return client

    # --- watching -------------------------------------------------------------------------------------------

    def _watch(self, producers: Producers, reshards: Reshards) -> str | None:
        say(f"{PRODUCERS} producers start to put records")
        producers.start()
        patience = Stillness(self._patience)
        watch = Watch()
        said_at, was_all = 0.0, False
        for now, latest in self._looks(producers, reshards):
            milestone = reshards.look(latest.put / self._records)
            if milestone is not None:
                say(f"{milestone}, while {latest.put:,} of {self._records:,} were put")
            if now - said_at >= _TELL_EVERY:
                say(latest)
                said_at = now
            is_all = producers.are_done and reshards.are_done and _is_all(latest, reshards)
            # Seen twice, so that a record which lands a second time a moment later isn't missed.
            if is_all and was_all:
                say(latest)
                return None
            was_all = is_all
            try:
                require_alive(self.dagster, watch)
            except ProcessDied as died:
                return str(died)
            if patience.is_out(now, latest):
                return (
                    f"no record was put or landed for {self._patience:.0f} s, so the demo gives up; on a slow machine it "
                    f"needs more patience (--patience {4 * self._patience:.0f})"
                )
        raise AssertionError("unreachable")

    def _looks(self, producers: Producers, reshards: Reshards) -> Iterator[tuple[float, DemoProgress]]:
        table = the_table(self._home.lake)
        while True:
            shards = len(reshards.shards())
            yield time.monotonic(), progress(table, put=producers.put, of=self._records, shards=shards)
            time.sleep(_LOOK_EVERY)


def _is_all(latest: DemoProgress, reshards: Reshards) -> bool:
    return latest.landed >= latest.put and latest.ended >= reshards.closed
