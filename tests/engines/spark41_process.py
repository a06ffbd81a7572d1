"""A Spark session that runs the SQL statements of its standard input. It is run by the Python of another venv, which has only
pyspark, so it imports nothing of this project.

Its argument is the session's configuration as JSON. Each line of standard input is a statement as a JSON string; the answer is a line
of JSON: {"columns": [...], "rows": [[...]]}, or {"error": "..."}. Values that JSON doesn't have become text.
"""

import json
import os
import sys


def main() -> None:
    # Spark's Java process may print to standard output too: answers get a stream of their own.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    from pyspark.sql import SparkSession  # after the line above, because it starts Java

    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    print(json.dumps({"columns": [], "rows": [[spark.version]]}), file=answers)
    for line in sys.stdin:
        try:
            found = spark.sql(json.loads(line))
            rows = [list(row) for row in found.collect()]
            answer = {"columns": found.columns, "rows": rows}
        except Exception as error:  # noqa: BLE001 - each error of Spark is an answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer, default=str), file=answers)
    spark.stop()


if __name__ == "__main__":
    main()
