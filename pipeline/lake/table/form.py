"""The version of the columns and properties of a table that Headrace has made, kept as a property of the table
(docs/reference/formats.md).
"""

from pyiceberg.table import Table

from headrace.pipeline.errors import WrongShape

FORM = "headrace.form"
"""Table property: the version."""
TABLE_FORM = "1"
"""The version that this Headrace writes, and the only one that it reads."""


def check_form(table: Table, called: str) -> None:
    """Raise an error for a table of a version that this Headrace doesn't know. A table without the property
    passes, because another tool may have removed it.
    """
    form = table.properties.get(FORM, TABLE_FORM)
    if form != TABLE_FORM:
        raise WrongShape(
            f"{called} has the form {form[:20]!r}, and this Headrace reads and writes form {TABLE_FORM}. Nothing was written, and no position "
            "moved; upgrade Headrace in this deployment"
        )
