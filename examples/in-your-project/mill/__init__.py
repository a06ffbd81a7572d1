"""A Dagster project of one's own."""
