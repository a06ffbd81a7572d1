"""The demo's folder, which holds all its files. It is emptied only if an earlier demo made it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.files.private_files import make_named_folder

_MARKER = ".headrace-demo"

APPLICATION, STREAM = "demo", "orders"
TARGET, TYPED = "orders", "lake.orders"
"""The typed table, and its name in the settings."""
PROCESSOR, PROCESSED = "numbers", "lake.numbers"
"""The record processor, and its table."""
NEW_COLUMN = "shop"
"""Each payload has this field. The first version of the typed table's schema lacks it, and the second one has it."""


@dataclass(frozen=True, slots=True)
class ParserVersion:
    """The version and the schema of the typed table that the demo's settings have at a time."""

    version: str
    schema: str


FIRST = ParserVersion("1", "id STRING, customer STRING, cents BIGINT")
SECOND = ParserVersion("2", f"{FIRST.schema}, {NEW_COLUMN} STRING")
_SETTINGS = """\
# Written by `headrace demo`.
application: {application}
streams: [{{name: {stream}}}]
workers: [{{id: w1}}, {{id: w2}}]
landing: {{home: {lake}}}
aws: {{region: us-east-1, endpoint: {endpoint}}}
parse: [{{name: {target}, table: {typed}, version: "{version}", schema: "{schema}"}}]
processors: [{{name: {processor}, table: {processed}, callable: "numbering:rows", schema: "id STRING, number BIGINT"}}]
wave: {{every: 1s}}  # the default of 10 s makes fewer snapshots, which a lasting table needs
times: {{materialize: 15s}}  # so that the UI shows progress during a short demo
"""
_CODE = '''\
"""Written by `headrace demo`: the record processor `numbers`."""

import json


def rows(records, state):
    """A row for each order, with its number among the orders of its shard."""
    number = state or 0
    numbered = []
    for record in records:
        number += 1
        numbered.append({"id": json.loads(record.binary_data)["id"], "number": number})
    return numbered, number
'''


@dataclass(frozen=True, slots=True)
class Home:
    folder: Path

    @property
    def settings(self) -> Path:
        return self.folder / "headrace.yaml"

    @property
    def code(self) -> Path:
        """The path of the record processor's module."""
        return self.folder / "numbering.py"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def dagster(self) -> Path:
        """The folder DAGSTER_HOME, in the place that `headrace dev` would choose for these settings, so that
        other commands find it.
        """
        return self.folder / ".dagster"

    @property
    def puts(self) -> Path:
        return self.folder / "put.jsonl"

    @property
    def shards(self) -> Path:
        return self.folder / "shards.json"

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def write_settings(self, endpoint: str, parser: ParserVersion) -> None:
        """Replace the settings file as a whole, because Dagster's processes may read it meanwhile, and write the
        processor's code beside it.
        """
        if not self.code.exists():
            self.code.write_text(_CODE, encoding="utf-8")
        lake, address = (json.dumps(text) for text in (str(self.lake), endpoint))
        text = _SETTINGS.format(
            application=APPLICATION,
            stream=STREAM,
            lake=lake,
            endpoint=address,
            target=TARGET,
            typed=TYPED,
            version=parser.version,
            schema=parser.schema,
            processor=PROCESSOR,
            processed=PROCESSED,
        )
        new = self.settings.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        new.replace(self.settings)


@contextmanager
def emptied(folder: Path) -> Iterator[Home]:
    """The demo's folder, emptied and locked for one demo at a time. A folder with files of anything else raises
    an error.
    """
    folder = folder.resolve()
    marker = folder / _MARKER
    if folder.exists() and not marker.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadSetting(
            f"{folder} has files that aren't from the demo, and the demo empties its folder: "
            "name another one with --home; nothing was touched"
        )
    make_named_folder(folder, private=True, name="--home")
    with marker.open("a", encoding="utf-8") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BadSetting(
                f"a demo is running in {folder}: stop it, or name another folder with --home"
            ) from None
        for thing in folder.iterdir():
            # A link may lead out of the folder: it is removed, and what it leads to stays.
            if thing.is_dir() and not thing.is_symlink():
                shutil.rmtree(thing)
            # The marker is the file that this process has locked.
            elif thing != marker:
                thing.unlink()
        # The default folder lies in a working copy of the user's.
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
        yield Home(folder)


def as_it_was_left(folder: Path) -> Home:
    home = Home(folder.resolve())
    for file in (home.puts, home.shards):
        if not file.exists():
            raise BadSetting(f"there is no file {file}: no demo has run to its summary in {home.folder}")
    return home


def surroundings(endpoint: str) -> dict[str, str]:
    """The environment variables of the demo's processes, in which those for AWS point to the stand-in only."""
    ours = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    # Without the user's own variables: they could send the demo to a real account, or change its settings.
    theirs = {k: v for k, v in os.environ.items() if not k.startswith(("HEADRACE__", "AWS_"))}
    return {**theirs, **ours}
