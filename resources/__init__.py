"""Dagster's resources. Each has a configuration that Dagster shows, and gives assets a port. They contain no logic."""
