"""PySpark 4.3 warns at each import that it doesn't fully support pandas 3. Headrace's jobs use Arrow only, never pandas,
and a person who reads the warning can do nothing about it. A process that imports this module before PySpark doesn't
print it.
"""

import warnings


def ignore_warning() -> None:
    """Once more: whoever keeps filters of their own around a piece of code, as pytest does, undoes those of imports."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


ignore_warning()
