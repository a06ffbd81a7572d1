"""Parses the columns of a schema in Spark's DDL, from the text to types, without Spark. Pure functions.

    id BIGINT NOT NULL, items ARRAY<STRUCT<sku: STRING NOT NULL COMMENT 'as sold', n: INT>>

This parser accepts what Spark's own one accepts, and makes the same types, except that it refuses types without a
counterpart in Iceberg.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.pipeline.settings.quoting import clipped

# Spark's names of types in DDL, and those in its JSON form of types.
_TYPES = {
    "boolean": "boolean",
    "tinyint": "byte",
    "byte": "byte",
    "smallint": "short",
    "short": "short",
    "int": "integer",
    "integer": "integer",
    "bigint": "long",
    "long": "long",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
}
_DECIMALS = ("decimal", "dec", "numeric")
# Spark and Iceberg have no longer decimals.
_MOST_DIGITS = 38
_TEXTS = ("varchar", "char", "character")
_ALLOWED = (
    "allowed: BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(10,2), STRING, BINARY, DATE, "
    "TIMESTAMP, TIMESTAMP_NTZ, ARRAY<...>, MAP<..., ...>, STRUCT<name: ...>"
)
_TOKEN = re.compile(
    r"(?P<space>\s+|--[^\r\n]*|/\*.*?\*/)"
    r"|(?P<quoted>`(?:[^`]|``)*`)"
    r"|(?P<text>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\")"
    r"|(?P<word>[A-Za-z0-9_]+)"
    r"|(?P<sign>[<>(),:])",
    re.DOTALL,
)
# What Spark reads as a number, and not as a name.
_NUMBER = re.compile(r"[0-9]+(?:L|S|Y|D|F|BD|E[0-9]+(?:D|F|BD)?)?", re.IGNORECASE)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))|(['\"])\3", re.DOTALL)
# Spark's escapes in texts. % and _ keep their backslash, because it makes them plain in a pattern of LIKE.
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
# Levels of types within types. Python can't call functions much deeper.
_DEEPEST = 100


class WrongDdl(Exception):
    def __init__(self, why: str, word: str, offset: int) -> None:
        """Tell what is wrong. `why`: the rest of a sentence after the wrong word. `offset`: where the word
        begins in the text."""
        super().__init__(why)
        self.why = why
        self.word = word
        self.offset = offset

    def __str__(self) -> str:
        return f"at {clipped(self.word) if self.word else 'its end'}: {self.why}"


@dataclass(frozen=True, slots=True)
class DdlColumn:
    name: str
    type: Any
    """The column's type, as Spark writes it in JSON."""
    required: bool
    """Whether the column is NOT NULL."""
    comment: str
    offset: int
    """Where the name begins in the text."""

    @property
    def field(self) -> dict[str, Any]:
        """The column as a struct field in Spark's JSON form."""
        metadata = {"comment": self.comment} if self.comment else {}
        return {"name": self.name, "type": self.type, "nullable": not self.required, "metadata": metadata}


def read_ddl(text: str) -> tuple[DdlColumn, ...]:
    """The columns of a schema. Raises WrongDdl."""
    reading = _Reading(tuple(_tokens(text)), len(text))
    columns = tuple(reading.fields(end=""))
    if not columns:
        raise WrongDdl("the schema names no column", "", 0)
    return columns


class _Token(NamedTuple):
    kind: str
    """word, quoted, text, sign, or `end` behind the last one."""
    text: str
    offset: int

    def is_word(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words


def _tokens(text: str) -> Iterator[_Token]:
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise WrongDdl(_why_no_token(text, offset), text[offset], offset)
        if match.lastgroup != "space":
            yield _Token(match.lastgroup or "", match[0], offset)
        offset = match.end()


def _why_no_token(text: str, offset: int) -> str:
    if text[offset] in "'\"`":
        return "this quote has no end"
    if text.startswith("/*", offset):
        return "this comment has no end"
    return "this character can only be in a name within backquotes, as in `a-b` INT"


@dataclass(slots=True)
class _Reading:
    tokens: tuple[_Token, ...]
    length: int
    place: int = 0
    depth: int = 0

    @property
    def now(self) -> _Token:
        if self.place < len(self.tokens):
            return self.tokens[self.place]
        return _Token("end", "", self.length)

    def took(self, text: str) -> bool:
        """Whether this sign is next; it is taken then."""
        is_next = self.now.kind == "sign" and self.now.text == text
        self.place += is_next
        return is_next

    def take(self, text: str, after: str) -> None:
        if not self.took(text):
            raise self.wrong(f"a {text} is missing {after}")

    def wrong(self, why: str, token: _Token | None = None) -> WrongDdl:
        token = token or self.now
        return WrongDdl(why, token.text, token.offset)

    def fields(self, *, end: str) -> Iterator[DdlColumn]:
        """Columns, or the fields of a struct, up to the sign `end`; an empty text stands for the end of the schema."""
        names: dict[str, str] = {}
        if self._ends(end):
            return
        while True:
            column = self._field()
            # By small letters: Spark takes names without regard to capitals.
            if earlier := names.get(column.name.lower()):
                same = (
                    "twice"
                    if earlier == column.name
                    else f"and {earlier} too; capital letters make no difference"
                )
                raise WrongDdl(f"the column {column.name} is there {same}", column.name, column.offset)
            names[column.name.lower()] = column.name
            yield column
            if self._ends(end):
                return
            if not self.took(","):
                raise self.wrong(
                    f"a comma{f' or a {end}' if end else ''} is missing before this word; after a type only NOT NULL and COMMENT '...' can stand"
                )

    def _ends(self, end: str) -> bool:
        return self.took(end) if end else self.now.kind == "end"

    def _field(self) -> DdlColumn:
        offset, name = self.now.offset, self._name()
        # Spark takes a colon between a name and its type, or none.
        self.took(":")
        kind = self._type(f"the column {name}")
        required = False
        if self.now.is_word("not"):
            self.place += 1
            if not self.now.is_word("null"):
                raise self.wrong("NULL is missing after NOT")
            self.place += 1
            required = True
        return DdlColumn(name, kind, required, self._comment(), offset)

    def _name(self) -> str:
        token = self.now
        if token.kind == "quoted":
            name = token.text[1:-1].replace("``", "`")
        elif token.kind == "word" and not _NUMBER.fullmatch(token.text):
            name = token.text
        else:
            raise self.wrong(
                "a column's name is needed here, within backquotes if it isn't made of letters, digits and _"
            )
        if why := why_no_column_name(name):
            raise self.wrong(why)
        self.place += 1
        return name

    def _comment(self) -> str:
        if not self.now.is_word("comment"):
            return ""
        self.place += 1
        texts: list[str] = []
        while self.now.kind == "text":
            texts.append(_ESCAPE.sub(_unescaped, self.now.text[1:-1]))
            self.place += 1
        if not texts:
            raise self.wrong("a text in quotes is needed after COMMENT")
        return "".join(texts)

    def _type(self, of: str) -> Any:
        token = self.now
        if token.kind != "word":
            raise self.wrong(f"the type of {of} is missing; {_ALLOWED}")
        self.place += 1
        name = token.text.lower()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self.wrong(f"there are more than {_DEEPEST} levels of types within types", token)
        kind = self._type_named(name, token)
        self.depth -= 1
        return kind

    def _type_named(self, name: str, token: _Token) -> Any:
        match name:
            case "array":
                self.take("<", "after ARRAY")
                element = self._type("the elements of an ARRAY")
                self._close("ARRAY")
                return {"type": "array", "elementType": element, "containsNull": True}
            case "map":
                self.take("<", "after MAP")
                key = self._type("the keys of a MAP")
                self.take(",", "after the type of a MAP's keys")
                value = self._type("the values of a MAP")
                self._close("MAP")
                return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
            case "struct":
                self.take("<", "after STRUCT")
                fields = [column.field for column in self.fields(end=">")]
                if not fields:
                    raise self.wrong("a STRUCT needs a field", token)
                return {"type": "struct", "fields": fields}
        numbers = self._numbers(token)
        if name in _DECIMALS:
            return self._decimal(numbers, token)
        if name in _TYPES and numbers is None:
            return _TYPES[name]
        raise self.wrong(_why_no_type(name, token.text), self._whole(token))

    def _close(self, what: str) -> None:
        if self.now.is_word("not"):
            raise self.wrong(f"NOT NULL can't stand within {what}<...>, except for a field of a STRUCT there")
        self.take(">", f"after the types within {what}<...>")

    def _numbers(self, token: _Token) -> list[int] | None:
        """The numbers within parentheses after a type; None where there are no parentheses."""
        if not self.took("("):
            return None
        numbers: list[int] = []
        while True:
            if not (self.now.kind == "word" and self.now.text.isdecimal()):
                raise self.wrong(f"a whole number is needed after {token.text}(")
            # Nine digits say that a number is too large; Python refuses to read one of thousands of digits.
            numbers.append(int(self.now.text[:9]))
            self.place += 1
            if self.took(")"):
                return numbers
            self.take(",", f"or a ) within {token.text}(...)")

    def _decimal(self, numbers: list[int] | None, token: _Token) -> str:
        type_token = self._whole(token)
        match numbers:
            case None:
                # Spark's DECIMAL without numbers is DECIMAL(10,0).
                digits, scale = 10, 0
            case [digits]:
                scale = 0
            case [digits, scale]:
                pass
            case _:
                raise self.wrong(
                    "a decimal has two numbers at most: its digits, and how many of them are after the point",
                    type_token,
                )
        if not 0 < digits <= _MOST_DIGITS:
            raise self.wrong(
                f"a decimal has 1 to {_MOST_DIGITS} digits, and this one has {digits}", type_token
            )
        if scale > digits:
            raise self.wrong(
                f"a decimal of {digits} digits can't have {scale} digits after its point", type_token
            )
        return f"decimal({digits},{scale})"

    def _whole(self, token: _Token) -> _Token:
        """All of a type that was read, from this word on."""
        type_words = self.tokens[self.tokens.index(token) : self.place]
        return _Token("word", "".join(word.text for word in type_words), token.offset)


def _why_no_type(name: str, word: str) -> str:
    if name in _TEXTS:
        return f"{word} has no counterpart in an Iceberg table; write STRING"
    return f"a column of an Iceberg table can't have this type; {_ALLOWED}"


def why_no_column_name(name: str) -> str | None:
    if not name:
        return "a column's name can't be empty"
    if "." in name:
        return "a dot in a name would mean a part of a struct; give the column another name"
    if "\0" in name or len(name) > 255:
        return "a column's name has at most 255 characters, and no zero character"
    return None


def _unescaped(escape: re.Match[str]) -> str:
    code, letter, quote = escape.groups()
    if quote:
        return quote
    return chr(int(code, 16)) if code else _ESCAPED.get(letter, letter)
