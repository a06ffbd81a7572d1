"""The parts of `headrace demo`: producers, reshards, progress, and the comparison of the table with the put records."""
