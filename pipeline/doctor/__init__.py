"""What `headrace doctor` looks at: whether this host, this project and its settings are as Headrace needs
them. It changes nothing.

diagnosis      what a check has found, in a sentence, and what to do about it
case           what the checks look at: the settings, as far as they can be read, and the environment
checks         the list of all checks; a new one is a function and a line there
settings       the settings file
java           Java, where a worker uses a Spark that Headrace starts
spark_server   the project's local Spark server, and other servers of this user
"""
