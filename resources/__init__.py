"""Dagster's resources: each has its configuration, for Dagster to show, and gives assets a port. They contain no
logic."""
