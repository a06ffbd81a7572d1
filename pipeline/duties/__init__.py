"""Hands that follow a plan. They know ports, not AWS, Spark or Dagster; nothing here sleeps or starts a thread."""
