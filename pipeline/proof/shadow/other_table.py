"""The data files of an Iceberg table that another consumer has written."""

from __future__ import annotations

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.lake.table.catalog import asking


def files_of_table(catalog: Catalog, name: str) -> tuple[str, ...]:
    if not all(name.partition(".")):
        raise BadSetting(
            f"--table is {name}; allowed: a namespace and a name, such as lake.orders; nothing was compared"
        )
    with asking(f"the table {name}"):
        try:
            tasks = list(catalog.load_table(name).scan().plan_files())
        except (NoSuchTableError, NoSuchIdentifierError, NoSuchNamespaceError) as error:
            raise BadSetting(
                f"--table is {name}, and the catalog of the lake table has no such table; nothing was compared"
            ) from error
    if deleted := next((task for task in tasks if task.delete_files), None):
        raise BadSetting(
            f"rows of {deleted.file.file_path} in {name} are deleted by a delete file, and can't be compared; "
            "let the table's engine run its rewrite_data_files, and compare again"
        )
    return tuple(sorted(task.file.file_path for task in tasks))
