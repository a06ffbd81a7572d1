"""The settings of an application: every setting with its default, the allowed words, and the reading of a
settings file."""
