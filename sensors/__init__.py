"""Dagster's sensors, which call the duties of leader and workers every few seconds. Each tick ends in one sentence."""
