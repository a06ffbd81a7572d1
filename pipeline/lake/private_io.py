"""pyiceberg's access to files (its FileIO), changed so that local files are private."""

from __future__ import annotations

from collections.abc import Mapping

from pyarrow.fs import FileSystem
from pyiceberg.io import PY_IO_IMPL
from pyiceberg.io.pyarrow import PyArrowFileIO

from pipeline.lake.private_files import PrivateFiles


class PrivateFileIO(PyArrowFileIO):
    """pyiceberg makes this object itself, from the class name in the catalog's properties."""

    def _initialize_local_fs(self) -> FileSystem:
        return PrivateFiles()


def with_private_io(properties: Mapping[str, str], location: str) -> dict[str, str]:
    """The catalog's properties, with private files for a local location. A FileIO that the user has chosen stays."""
    if PY_IO_IMPL in properties or not is_local(location):
        return dict(properties)
    return {**properties, PY_IO_IMPL: f"{PrivateFileIO.__module__}.{PrivateFileIO.__name__}"}


def is_local(location: str) -> bool:
    """Whether a location is surely a folder on this machine. The warehouse of a REST catalog may be a name that is no path."""
    return location.startswith(("/", "file:"))
