"""The list of mistakes in the settings, collected while they are read, so that one error names all of them."""

from dataclasses import dataclass, field

from headrace.pipeline.errors import Mistake, WrongSettings

NO_SECRETS = (
    "looks like a secret, and secrets are never settings: leave it out and use a role, AWS's own configuration "
    "or the client's own environment variables"
)


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where a value came from: the default, a line of a file, or an environment variable."""

    name: str = "default"
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.name}:{self.line}" if self.line else self.name


@dataclass(slots=True)
class Problems:
    file: str
    """The settings file's name. The error names mistakes in the file first, in the order of the file's lines."""
    _mistakes: list[tuple[ValueSource, Mistake]] = field(default_factory=list)
    _unread: set[str] = field(default_factory=set)
    """Keys whose value (or whole section) could not be read."""
    _broken: set[str] = field(default_factory=set)
    """Keys that break a rule."""

    def unread(self, source: ValueSource, key: str, why: str) -> None:
        """Add a mistake: the value of `key` can't be read. Reading goes on with the default value."""
        self._mistakes.append((source, Mistake(str(source), key, f"{source}: {why}")))
        self._unread.add(key)

    def broken(self, source: ValueSource, key: str, why: str) -> None:
        """Add a mistake: the value of `key` doesn't fit the other settings. `why` is the rest of a sentence
        after the key."""
        self._mistakes.append((source, Mistake(str(source), key, f"{source}: {key} {why}")))
        self._broken.add(key)

    def variable(self, name: str, sentence: str) -> None:
        """Add a mistake about an environment variable as a whole; the sentence names the variable."""
        self._mistakes.append((ValueSource(name), Mistake(name, name, sentence)))

    def touches(self, key: str, *also: str) -> bool:
        """Whether this key, or one of the keys that a rule compares it with, already has a mistake in the list."""
        if not self._broken.isdisjoint((key, *also)) or any(_within(key, bad) for bad in self._unread):
            return True
        return any(
            _within(compared, bad) or _within(bad, compared) for compared in also for bad in self._unread
        )

    def error(self) -> WrongSettings | None:
        """The error with one line for each mistake; None where there is no mistake."""
        if not self._mistakes:
            return None
        # Mistakes of the file first, in the order of its lines; those of variables have no line.
        ordered = sorted(self._mistakes, key=lambda entry: (entry[0].name != self.file, entry[0].line or 0))
        return WrongSettings([mistake for _, mistake in ordered])


def _within(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")
