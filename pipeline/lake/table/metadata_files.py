"""Reads Iceberg's metadata files, which may be gone or damaged: after a full disk, a restored backup, or a
clean-up by a tool that deleted too much.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.exceptions import ValidationError
from pyiceberg.io import FileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata

from headrace.pipeline.errors import MetadataLost

_DAMAGED = (ValidationError, ValueError, EOFError, zlib.error)
"""What pyiceberg raises for a file that is no metadata file, and Python for bytes that are no text or no whole gzip
file."""


def read_metadata(io: FileIO, location: str, *, of: str, previous: str | None = None) -> TableMetadata:
    """Read one metadata file. Raises MetadataLost with a sentence that names the file. `of`: the table.
    `previous`: the metadata file before this one.
    """
    with finding_metadata(of, location, previous):
        return FromInputFile.table_metadata(io.new_input(location))


@contextmanager
def finding_metadata(of: str, location: str = "", previous: str | None = None) -> Iterator[None]:
    """Errors about a metadata file in the `with` block are raised as MetadataLost. `of`: the table. `location`:
    the file, where the caller knows it; some catalogs read the file themselves.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise MetadataLost(_sentence(of, location or str(error), "is gone", previous)) from error
    except _DAMAGED as error:
        raise MetadataLost(_sentence(of, location, f"is damaged ({_cause(error)})", previous)) from error


def _sentence(of: str, location: str, what: str, previous: str | None) -> str:
    file = f"the metadata file of the lake table {of} that the catalog names{f', {location},' if location else ''}"
    back = (
        f"the catalog back to the file before it, {previous}"
        if previous
        else "back to an earlier metadata file"
    )
    return (
        f"{file} {what}. Nothing was committed, and nothing is read until a person has decided. Restore this file from a backup; or set "
        f"{back}, as docs/use/when-wrong.md tells (a metadata file that is gone): what was landed since then is read from Kinesis again"
    )


def _cause(error: Exception) -> str:
    """The error's kind and place. Not the whole text of pyiceberg's errors, which quotes the file over many lines."""
    lines = [line.strip() for line in str(error).splitlines()]
    return (lines[1] if len(lines) > 1 else lines[0] if lines else type(error).__name__).partition(" [type=")[
        0
    ]
