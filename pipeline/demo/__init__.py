"""The demonstration's own parts: producers, reshards, progress, and the verdict over what was read."""
