"""Opening the catalog, and what its errors mean."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from pipeline.errors import Unknown, Unreachable

CATALOG_NAME = "headrace"
"""SqlCatalog keys its rows by this name: other engines on the same database need it too."""
_BUSY_MS = 30_000
_OPENINGS = 5


def embedded_catalog(home: Path) -> dict[str, str]:
    """A catalog on SQLite and a warehouse in plain folders, for one machine."""
    home = home.resolve()
    (home / "warehouse").mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{home / 'catalog.db'}", "warehouse": str(home / "warehouse")}


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    for left in reversed(range(_OPENINGS)):
        try:
            return _open(properties)
        except OperationalError:
            # Two processes that make the catalog's own tables at the same moment: the second finds them made.
            if not left:
                raise
    raise AssertionError("unreachable")


def _open(properties: Mapping[str, str]) -> Catalog:
    catalog = load_catalog(CATALOG_NAME, **properties)
    if isinstance(catalog, SqlCatalog) and catalog.engine.dialect.name == "sqlite":
        # No pool: an open connection to a file survives neither a fork nor the end of a process in peace.
        catalog.engine.dispose()
        catalog.engine = create_engine(catalog.engine.url, poolclass=NullPool)
        event.listen(catalog.engine, "connect", _be_patient)
        with catalog.engine.connect():
            pass
    return catalog


def _be_patient(connection: sqlite3.Connection, _: Any) -> None:
    """Readers don't wait for writers, and writers wait for each other instead of failing."""
    connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
    connection.execute("PRAGMA journal_mode = WAL")


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Whatever keeps a question from being answered is one error: try again later."""
    try:
        yield
    except NoSuchTableError as error:
        raise Unknown(
            f"{what} isn't in the catalog. Nothing was committed; was it dropped or renamed? A start makes it anew, "
            "and the streams are then read from their origin again"
        ) from error
    except (OSError, SQLAlchemyError, RESTError, BotoCoreError, ClientError) as error:
        raise Unreachable(
            f"{what} can't be asked now: {error}. Nothing moved; trying again later is right"
        ) from error
