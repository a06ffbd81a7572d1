"""A processor as users write them, for mode application: it notes each call in the file that the environment names."""

import json
import os
import signal
from pathlib import Path

from headrace.kclpy.kcl import CheckpointError


def note(shard, what, **facts):
    with Path(os.environ["RECORDED"]).open("a") as file:
        file.write(json.dumps({"shard": shard, "what": what, "process": os.getpid(), **facts}) + "\n")


class Recording:
    version = 3

    def initialize(self, initialize_input):
        self.shard = initialize_input.shard_id
        state = initialize_input.pending_checkpoint_state
        note(
            self.shard,
            "initialize",
            at=[initialize_input.sequence_number, initialize_input.sub_sequence_number],
            pending=initialize_input.pending_checkpoint_sequence_number,
            state=None if state is None else state.decode(),
        )

    def process_records(self, process_records_input):
        for record in process_records_input.records:
            word = record.binary_data.decode()
            note(
                self.shard,
                "record",
                number=[record.sequence_number, record.sub_sequence_number],
                word=word,
                behind=process_records_input.millis_behind_latest,
            )
            self.work(word, record, process_records_input.checkpointer)

    def work(self, word, record, checkpointer):
        marker = Path(word.partition(":")[2])
        if word.startswith("fail"):
            raise ValueError("no such word")
        if word.startswith(("once:", "kill:")) and not marker.exists():
            marker.touch()
            if word.startswith("kill:"):
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError("the service is away")
        if word.startswith("steal:"):
            # Whoever waits for this file takes the lease away.
            marker.touch()
            while marker.exists():
                pass
        if word == "prepare":
            checkpointer.prepare_checkpoint(record.sequence_number, 0, b"half done")
            return
        if word != "leave":
            self.checkpoint(checkpointer, record.sequence_number, record.sub_sequence_number)

    def checkpoint(self, checkpointer, *place):
        try:
            checkpointer.checkpoint(*place)
        except CheckpointError as error:
            note(self.shard, "refused", error=error.value)

    def lease_lost(self, lease_lost_input):
        note(self.shard, "lease_lost")

    def shard_ended(self, shard_ended_input):
        note(self.shard, "shard_ended")
        shard_ended_input.checkpointer.checkpoint()

    def shutdown_requested(self, shutdown_requested_input):
        note(self.shard, "shutdown_requested")


class AtShutdown(Recording):
    """Checkpoints only when it is asked to stop."""

    def checkpoint(self, checkpointer, *place): ...

    def shutdown_requested(self, shutdown_requested_input):
        super().shutdown_requested(shutdown_requested_input)
        Recording.checkpoint(self, shutdown_requested_input.checkpointer)


class ForgetsTheEnd(Recording):
    def shard_ended(self, shard_ended_input):
        note(self.shard, "shard_ended")
