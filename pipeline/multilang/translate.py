"""Translates a .properties file of KCL's MultiLangDaemon to Headrace's settings. Pure functions.

The settings do what the daemon does with the file, which isn't always what the file says; a note names each such
place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches

from headrace.pipeline.errors import BadSetting
from headrace.pipeline.multilang.names import (
    CREDENTIALS,
    IGNORED,
    KNOWN,
    MEANS_POLLING,
    SIDE_TABLES,
    DaemonName,
    JavaType,
    Writing,
)
from headrace.pipeline.multilang.properties import Property, properties_in

_NEEDED = ("executableName", "applicationName")
_POSITIONS = ("TRIM_HORIZON", "LATEST")
_PHASE_1 = "CLIENT_VERSION_CONFIG_COMPATIBLE_WITH_2X"
_PROFILE = "profilecredentialsprovider"
_ARN_OF_A_STREAM = re.compile(r"arn:[\w-]+:kinesis:(?P<region>[\w-]+):\d*:stream/(?P<name>.+)")


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A note for people about one name in the file."""

    name: str
    line: int
    """0: the file doesn't have the name."""
    sentence: str

    def __str__(self) -> str:
        place = f"line {self.line}, " if self.line else ""
        return f"{place}{self.name}: {self.sentence}"


@dataclass(slots=True)
class Translation:
    settings: dict[str, str] = field(default_factory=dict)
    """Dotted name of a setting -> its value, as in a settings file."""
    notes: list[ImportNote] = field(default_factory=list)
    sources: dict[str, Property] = field(default_factory=dict)
    """Dotted name of a setting -> where its value comes from."""


def translated(text: str, *, file: str) -> Translation:
    """The settings of Headrace that do what this .properties file says. Raises BadSetting for a file with which
    KCL's daemon wouldn't start.
    """
    entries = tuple(properties_in(text))
    result = Translation()
    _check_twice(entries, file)
    # Of a name that is there twice, Java keeps the last.
    last = {entry.name: entry for entry in entries}
    counts = {name: entry for name, entry in last.items() if _is_counted(entry, result)}
    _check_needed(counts, file)
    for name, entry in counts.items():
        if name in KNOWN:
            _take(entry, KNOWN[name], result)
    _take_stream(counts, result)
    _take_position(counts, result, file)
    _take_retrieval(counts, result)
    _take_endpoints(counts, result)
    _take_metrics(result)
    _take_mode(counts, result)
    _take_processor(result)
    result.notes.sort(key=lambda note: note.line or len(text))
    return result


def _check_twice(entries: Sequence[Property], file: str) -> None:
    lower = {entry.name for entry in entries if entry.name.lower() in CREDENTIALS}
    for name, count in Counter(name.lower() for name in lower).items():
        if count > 1:
            raise BadSetting(
                f"{file}: {name} is there {count} times, each in other letters, and KCL's daemon doesn't start with such "
                "a file. Nothing was written; keep one of them"
            )


def _check_needed(counts: Mapping[str, Property], file: str) -> None:
    missing = [name for name in _NEEDED if name not in counts]
    if not counts.keys() & {"streamName", "streamArn"}:
        missing.append("streamName")
    if missing:
        raise BadSetting(
            f"{file} has no {' and no '.join(missing)}, without which KCL's daemon doesn't start. Nothing was written; "
            "add it, or name the file with which your daemon runs"
        )


def _is_counted(entry: Property, result: Translation) -> bool:
    """Whether the daemon takes the value. Says why where it doesn't."""
    name, value = entry.name, entry.value
    known = KNOWN.get(name)
    if name.lower() in CREDENTIALS:
        _take_credentials(entry, result)
        return False
    if known is None:
        result.notes.append(ImportNote(name, entry.line, _why_unknown(name)))
        return False
    if not value:
        result.notes.append(ImportNote(name, entry.line, "it has no value, and counts as not set"))
        return False
    why = _why_not_set(known, value)
    if why:
        default = f", so that its default ({known.default}) holds" if known.default else ""
        result.notes.append(ImportNote(name, entry.line, f"{why}{default}, and it was left out"))
    return not why


def _why_unknown(name: str) -> str:
    if why := IGNORED.get(name):
        return f"KCL's daemon ignores it: {why}"
    if name in SIDE_TABLES:
        return "it is about one of KCL's two side tables; `coordination` has one setting for all tables"
    if name.partition(".")[0] in ("kinesisClient", "dynamoDbClient", "cloudWatchClient", "pollingConfig"):
        return "it sets an option of a Java client; Headrace's own clients have fixed times, and the settings `aws` say which service they call"
    same = next((known for known in KNOWN if known.lower() == name.lower()), None)
    if same is not None:
        return f"KCL's daemon ignores it, because it means {same} by the letter; correct it if you want it to count"
    near = get_close_matches(name, KNOWN, n=1, cutoff=0.8)
    return f"KCL's daemon knows no property of this name, and ignores the line{f'; was {near[0]} meant?' if near else ''}"


def _why_not_set(known: DaemonName, value: str) -> str:
    match known.kind:
        case JavaType.NUMBER | JavaType.OBJECT_NUMBER:
            if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", value):
                return f"KCL can't read {value[:40]!r} as a number, and doesn't say so"
            if known.kind is JavaType.NUMBER and float(value) == 0:
                return "KCL's daemon takes 0 for not set"
        case JavaType.FLAG if value.lower() != "true":
            return "KCL's daemon takes false for not set"
        case _:
            pass
    return ""


def _take(entry: Property, known: DaemonName, result: Translation) -> None:
    if known.setting:
        result.settings[known.setting] = _written(entry.value, known.form)
        result.sources[known.setting] = entry
        if known.why:
            result.notes.append(
                ImportNote(entry.name, entry.line, f"it became `{known.setting}`; {known.why}")
            )
    elif known.why and entry.value != known.default:
        result.notes.append(ImportNote(entry.name, entry.line, f"it was left out: {known.why}"))


def _written(value: str, form: Writing) -> str:
    match form:
        case Writing.MILLIS:
            number = int(float(value))
            return f"{number // 1000}s" if number % 1000 == 0 else f"{number}ms"
        case Writing.SECONDS:
            return f"{value}s"
        case Writing.PERCENT:
            return f"{float(value) / 100:g}"
        case Writing.OPPOSITE:
            return "false" if value.lower() == "true" else "true"
        case Writing.AS_IT_IS:
            return value.lower() if value.lower() in ("true", "false") else value


# --- names that belong together ---------------------------------------------------------------------------------------


def _take_credentials(entry: Property, result: Translation) -> None:
    provider, _, argument = entry.value.partition("|")
    if provider.rpartition(".")[2].lower() == _PROFILE and argument:
        result.settings["aws.profile"] = argument
        return
    # Without the arguments, which may be keys.
    kind = provider.rpartition(".")[2].partition(",")[0]
    result.notes.append(
        ImportNote(
            entry.name,
            entry.line,
            f"Headrace has AWS's own chain of credentials, in the place of {kind}; keys and roles come from the "
            "environment, and `aws.profile` names a profile",
        )
    )


def _take_stream(counts: Mapping[str, Property], result: Translation) -> None:
    arn = counts.get("streamArn")
    if arn is None:
        return
    if counts.get("streamName"):
        result.notes.append(
            ImportNote("streamName", counts["streamName"].line, "streamArn is there too, and wins")
        )
    result.settings["streams.0.name"], result.sources["streams.0.name"] = arn.value, arn
    region = result.settings.get("aws.region")
    elsewhere = _ARN_OF_A_STREAM.fullmatch(arn.value)
    if elsewhere and region and elsewhere["region"] != region:
        result.settings["streams.0.name"] = elsewhere["name"]
        sentence = (
            f"its region {elsewhere['region']} doesn't count, because KCL's daemon reads the stream of this name in "
            f"{region}, as regionName says; correct `aws.region` if you mean the other one"
        )
        result.notes.append(ImportNote("streamArn", arn.line, sentence))


def _take_position(counts: Mapping[str, Property], result: Translation, file: str) -> None:
    """KCL's default is LATEST, and Headrace's is not, so that the position is always written."""
    extended, named = counts.get("initialPositionInStreamExtended"), counts.get("initialPositionInStream")
    position = "LATEST" if named is None else named.value.upper()
    if extended is not None:
        result.settings["streams.0.timestamp"] = _moment(extended, file)
        position = "AT_TIMESTAMP"
    elif position not in _POSITIONS:
        raise BadSetting(
            f"{file}: initialPositionInStream is {position[:40]!r}, and KCL's daemon starts with "
            f"{' and '.join(_POSITIONS)} only. Nothing was written; a time goes into initialPositionInStreamExtended"
        )
    result.settings["streams.0.initial_position"] = position


def _moment(entry: Property, file: str) -> str:
    try:
        return datetime.fromtimestamp(float(entry.value), UTC).isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise BadSetting(
            f"{file}: initialPositionInStreamExtended is {entry.value[:40]!r}, and has to be seconds since 1970. "
            "Nothing was written; correct it"
        ) from error


def _take_retrieval(counts: Mapping[str, Property], result: Translation) -> None:
    mode = counts["retrievalMode"].value.upper() if "retrievalMode" in counts else "DEFAULT"
    polls = [name for name in MEANS_POLLING if name in counts]
    polling = mode == "POLLING" or (mode == "DEFAULT" and bool(polls))
    result.settings["streams.0.retrieval"] = "polling" if polling else "fanout"
    if polling:
        result.settings.pop("streams.0.consumer", None)
        if mode == "DEFAULT":
            sentence = "with this property KCL polls, although retrievalMode isn't set; so does `streams.0.retrieval: polling`"
            result.notes.append(ImportNote(polls[0], counts[polls[0]].line, sentence))
        return
    line = counts["retrievalMode"].line if "retrievalMode" in counts else 0
    result.notes.append(
        ImportNote(
            "retrievalMode",
            line,
            "KCL reads by enhanced fan-out unless it is told to poll, and AWS charges for it; `polling` costs nothing. "
            "While KCL's workers still run, `streams.0.consumer` has to be another name than theirs",
        )
    )


def _take_endpoints(counts: Mapping[str, Property], result: Translation) -> None:
    endpoints = [counts[name] for name in ("kinesisEndpoint", "dynamoDBEndpoint") if name in counts]
    if len({entry.value for entry in endpoints}) == 1:
        result.settings["aws.endpoint"] = endpoints[0].value
        if len(endpoints) == 1:
            sentence = "it became `aws.endpoint`, which counts for all services"
            result.notes.append(ImportNote(endpoints[0].name, endpoints[0].line, sentence))
    else:
        for entry in endpoints:
            sentence = "it was left out: `aws.endpoint` is one for all services, and these two differ"
            result.notes.append(ImportNote(entry.name, entry.line, sentence))


def _take_metrics(result: Translation) -> None:
    """KCL sends metrics to CloudWatch by default. Headrace does so where the file shows that a person has thought of
    them."""
    level = result.settings.get("metrics.level", "").upper()
    if level:
        result.settings["metrics.level"] = level
    if level not in ("", "NONE"):
        result.settings["metrics.to"] = "cloudwatch"
    elif not level:
        sentence = (
            "KCL sends all its metrics to CloudWatch, which AWS charges for; `metrics.to: cloudwatch` does so"
        )
        result.notes.append(ImportNote("metricsLevel", 0, sentence))


def _take_mode(counts: Mapping[str, Property], result: Translation) -> None:
    config = counts.get("clientVersionConfig")
    if config is None:
        return
    result.settings["kcl.mode"] = "2.x" if config.value.upper().startswith(_PHASE_1) else "own"


def _take_processor(result: Translation) -> None:
    command = result.settings["processors.0.command"]
    words = command.split()
    script = next((word for word in words if word.endswith(".py")), None)
    stem = re.sub(r"\W", "_", (script or words[0]).rpartition("/")[2].removesuffix(".py"))
    name = stem if re.match(r"[A-Za-z_]", stem) else f"p_{stem}"
    result.settings |= {"processors.0.name": name, "processors.0.table": f"lake.{name}"}
    if script is not None:
        # The script's own first line may start a Python that has amazon_kclpy; this one needs none.
        arguments = words[words.index(script) :]
        result.settings["processors.0.command"] = " ".join(("python -m headrace.kclpy", *arguments))
