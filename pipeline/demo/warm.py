"""`python -m pipeline.demo.warm`: start the local Spark beside everything else that starts, so that no run waits."""

from __future__ import annotations

from pipeline.lake.session import spark_session
from pipeline.settings import SparkSettings


def main() -> None:
    session = spark_session(SparkSettings(), "headrace demo")
    session.range(1).collect()
    session.stop()


if __name__ == "__main__":
    main()
