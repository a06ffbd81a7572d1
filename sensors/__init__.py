"""Dagster's sensors: the clocks of the duties. Each tick ends in one sentence."""
