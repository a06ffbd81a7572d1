"""Headrace: Amazon Kinesis streams into lake tables, every record exactly once.

The four packages are links to the folders of the same names at the top of the repository. They are imported under this name only
(`headrace.pipeline`, ...): a Dagster project usually has packages called `assets` or `sensors` of its own.
"""
