"""The questions that a command asks a person before it acts, and who that person is."""
