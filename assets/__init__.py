"""Dagster's assets: one partition is one shard."""
