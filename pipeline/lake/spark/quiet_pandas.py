"""PySpark 4.3 warns at each import that it doesn't fully support pandas 3. Headrace's jobs use Arrow only, never pandas,
and a person who reads the warning can do nothing about it. A process that imports this module before PySpark doesn't
print it.
"""

import warnings


def ignore_warning() -> None:
    """Leave out PySpark's warning about pandas. A program that restores its warning filters, as pytest does after each
    test, calls this once more.
    """
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


ignore_warning()
