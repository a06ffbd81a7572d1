"""Duties: code that follows a plan through ports. It knows neither AWS nor Spark nor Dagster, and starts no thread."""
