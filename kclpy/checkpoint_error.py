"""The error of a checkpoint that wasn't taken."""


class CheckpointError(Exception):
    """`value`: why, by the name that KCL has for it, such as ShutdownException or ThrottlingException."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)
