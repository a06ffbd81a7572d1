"""Processors as users write them: they count words per shard."""

import os
import signal
import sys
import time
from pathlib import Path

from headrace.kclpy.kcl import CheckpointError


def rows(records, state):
    """A function: a row for each word, with how often the shard has had it."""
    totals = dict(state or {})
    made = []
    for record in records:
        word = record.binary_data.decode()
        if record.sub_sequence_number == 1:
            fail_once(word, "inner")
        misbehave(word)
        totals[word] = totals.get(word, 0) + 1
        made.append({"word": word, "total": totals[word]})
    return made, totals


def misbehave(word):
    """What goes wrong with some words."""
    if word == "bad":
        raise ValueError("no such word")
    if word == "die":
        os._exit(3)
    if word == "hang":
        time.sleep(600)
    if word == "spin":
        while True:
            pass
    if word == "eat":
        bytearray(8 << 30)
    if word == "print":
        print('{"action": "status", "responseFor": "processRecords"}')
        print("half a line", end="")
        os.write(1, b'{"action": "checkpoint"}\n')
    for beginning, victim in (("killtask", os.getppid()), ("killself", os.getpid())):
        if word.startswith(beginning) and not (marker := Path(word.partition(":")[2])).exists():
            marker.touch()
            os.kill(victim, signal.SIGKILL)
            time.sleep(600)
    fail_once(word, "once")


def fail_once(word, beginning):
    marker = Path(word.partition(":")[2])
    if word.startswith(beginning) and not marker.exists():
        marker.touch()
        raise OSError("the service is away")


class Words:
    """The same as a class of version 3 that isn't derived from any."""

    version = 3

    def __init__(self):
        self.totals = {}
        self.calls = []

    def restore_state(self, state):
        self.totals = state

    def save_state(self):
        return self.totals

    def initialize(self, initialize_input):
        print("initialize", initialize_input.shard_id, initialize_input.sequence_number, file=sys.stderr)

    def process_records(self, process_records_input):
        made, self.totals = rows(process_records_input.records, self.totals)
        self.checkpoint(process_records_input)
        return made

    def checkpoint(self, process_records_input):
        process_records_input.checkpointer.checkpoint()

    def lease_lost(self, lease_lost_input):
        pass

    def shard_ended(self, shard_ended_input):
        shard_ended_input.checkpointer.checkpoint()
        return [{"word": "ended", "total": len(self.totals)}]

    def shutdown_requested(self, shutdown_requested_input):
        pass


class NeverCheckpoints(Words):
    def checkpoint(self, process_records_input):
        pass


class ForgetsTheEnd(Words):
    def shard_ended(self, shard_ended_input):
        pass


class AtShutdown(NeverCheckpoints):
    """Keeps its rows until the wave ends."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def process_records(self, process_records_input):
        self.kept += super().process_records(process_records_input)

    def shutdown_requested(self, shutdown_requested_input):
        shutdown_requested_input.checkpointer.checkpoint()
        return self.kept

    def shard_ended(self, shard_ended_input):
        shard_ended_input.checkpointer.checkpoint()
        return self.kept


class UpToTheFirst(Words):
    """Checkpoints after the first call only."""

    def checkpoint(self, process_records_input):
        if not self.calls:
            process_records_input.checkpointer.checkpoint()
        self.calls.append(len(process_records_input.records))


class NoRows(Words):
    def process_records(self, process_records_input):
        super().process_records(process_records_input)
        return [{"letter": "x"}]


class Lenient(Words):
    """Knows each word."""

    def process_records(self, process_records_input):
        process_records_input.checkpointer.checkpoint()
        return []


class Stopped(Words):
    """Its task gets a SIGTERM in the middle of the second call."""

    def process_records(self, process_records_input):
        word = process_records_input.records[0].binary_data.decode()
        if word.startswith("stop:"):
            self.told = Path(word.partition(":")[2])
            if not self.told.exists():
                self.told.write_text("processing")
                os.kill(os.getppid(), signal.SIGTERM)
        return super().process_records(process_records_input)

    def shutdown_requested(self, shutdown_requested_input):
        try:
            shutdown_requested_input.checkpointer.checkpoint()
        except CheckpointError as error:
            self.told.write_text(f"shutdown_requested, {error.value}")

    def lease_lost(self, lease_lost_input):
        if hasattr(self, "told") and self.told.read_text() != "processing":
            self.told.write_text(f"{self.told.read_text()}, lease_lost")


class DeafToAStop(Stopped):
    def shutdown_requested(self, shutdown_requested_input):
        time.sleep(600)


def mended(records, state):
    """The function after its correction: it knows the word at which it failed."""
    totals = dict(state or {})
    made = []
    for record in records:
        word = record.binary_data.decode()
        if word != "bad":
            misbehave(word)
        totals[word] = totals.get(word, 0) + 1
        made.append({"word": word, "total": totals[word]})
    return made, totals


class Mended(Words):
    """The class after its correction."""

    def process_records(self, process_records_input):
        made, self.totals = mended(process_records_input.records, self.totals)
        self.checkpoint(process_records_input)
        return made


class MendedUpToTheFirst(Mended):
    """Checkpoints after the first call only."""

    def checkpoint(self, process_records_input):
        if not self.calls:
            process_records_input.checkpointer.checkpoint()
        self.calls.append(len(process_records_input.records))


class MendedAndForgetful(Mended):
    def checkpoint(self, process_records_input):
        pass
