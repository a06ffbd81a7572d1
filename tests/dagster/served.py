"""Definitions that tests have made, each under a name of its own, for code that loads definitions by a module's name."""
