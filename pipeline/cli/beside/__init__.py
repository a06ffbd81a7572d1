"""The processes that commands start, join or notice: Dagster, Spark, the console."""
