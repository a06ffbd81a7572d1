"""The error of a checkpoint that was refused."""


class CheckpointError(Exception):
    """A checkpoint was refused. `value`: the reason, as KCL's name for it, such as ShutdownException or
    ThrottlingException.
    """

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)
