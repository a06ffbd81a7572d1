"""What a command asks a person before it acts, and who that person is."""
