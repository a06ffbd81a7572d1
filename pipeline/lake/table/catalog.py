"""Opens the Iceberg catalog, and turns errors of the libraries below into Headrace's errors."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from pyiceberg.utils.config import Config
from sqlalchemy import make_url
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from headrace.pipeline.errors import Unknown, Unreachable
from headrace.pipeline.lake.files.private_files import make_named_folder, make_private_file
from headrace.pipeline.lake.table.sql_catalog import KeepingSqlCatalog, sqlite_engine

CATALOG_NAME = "headrace"
"""SqlCatalog stores this name in each row and finds only rows with it: another engine on the same database has to use
it."""
CATALOG_FILE = "catalog.db"
"""The database of the embedded catalog, in `landing.home`."""
_OPENINGS = 5


def embedded_catalog(home: Path, *, private: bool = True) -> dict[str, str]:
    """A catalog on SQLite and a warehouse in plain folders, for one machine."""
    home = home.resolve()
    make_named_folder(home / "warehouse", private=private, name="landing.home")
    return {"type": "sql", "uri": f"sqlite:///{home / CATALOG_FILE}", "warehouse": str(home / "warehouse")}


def open_catalog(properties: Mapping[str, str], *, private: bool = True) -> Catalog:
    # Before SQLite makes it: a moment with a file that all can read is enough to copy it.
    if private:
        _make_private_database(properties.get("uri", ""))
    for further in reversed(range(_OPENINGS)):
        try:
            return _open(properties)
        except OperationalError:
            # Two processes created the catalog's own tables at the same moment. The next try finds the tables there.
            if not further:
                raise
    raise AssertionError("unreachable")


def _open(properties: Mapping[str, str]) -> Catalog:
    if properties.get("type") == "sql":
        # What the user's configuration of pyiceberg says of this catalog counts where the settings say nothing.
        stated: dict[str, Any] = {**(Config().get_catalog_config(CATALOG_NAME) or {}), **properties}
        # After a restart of the database the first use of each pooled connection would fail, and with it a tick or a
        # wave.
        return KeepingSqlCatalog(CATALOG_NAME, **{"pool_pre_ping": "true", **stated})
    catalog = load_catalog(CATALOG_NAME, **properties)
    if isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "sqlite":
        catalog.engine.dispose()
        catalog.engine = sqlite_engine(str(catalog.engine.url))
    return catalog


def _make_private_database(uri: str) -> None:
    """Create the database as an empty private file. SQLite gives its -wal and -shm files the mode of the database
    file."""
    if uri.startswith("sqlite") and (path := make_url(uri).database) not in {None, "", ":memory:"}:
        make_private_file(Path(path))


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn errors of the libraries below into Unreachable (try again later), and a missing table into Unknown."""
    try:
        yield
    except NoSuchTableError as error:
        raise Unknown(
            f"{what} isn't in the catalog. Nothing was committed. If the table was renamed or dropped, rename it back or restore it; "
            "the first tick of a new application makes its table"
        ) from error
    # All of them may pass by themselves. What a person has to mend has an error of its own.
    except (OSError, SQLAlchemyError, RESTError, BotoCoreError, ClientError) as error:
        raise Unreachable(
            f"{what} can't be reached now: {_told(error)}. No position moved; the next tick or run tries again"
        ) from error


_OF_THE_DISK = ("disk I/O error", "disk is full", "readonly database", "unable to open database file")
"""What SQLite says where it can't write its files."""
_SPACE = ": the disk is full, or this user may not write there. Make space, or give the right to write"
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}


def _told(error: Exception) -> str:
    if not isinstance(error, SQLAlchemyError):
        is_of_the_disk = isinstance(error, OSError) and error.errno in _DISK_ERRORS
        return f"{error}{_SPACE if is_of_the_disk else ''}"
    # Further lines have the statement and an address of SQLAlchemy's documents.
    line = str(error).partition("\n")[0]
    return f"{line}{_SPACE if any(words in line for words in _OF_THE_DISK) else ''}"
