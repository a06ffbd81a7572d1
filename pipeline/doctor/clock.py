"""A check: whether AWS answers this host, and whether the clocks of both agree."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.pipeline.core.words.words import time_in_words
from headrace.pipeline.doctor.case import LiveCase
from headrace.pipeline.doctor.diagnosis import Diagnosis, Health
from headrace.pipeline.doctor.images import lacking_images
from headrace.pipeline.errors import HeadraceError, Unreachable
from headrace.pipeline.settings.stream_names import is_dynamodb

_AWS, _CLOCK, _STREAMS = "AWS", "clock", "streams"
# Seconds. Headrace commits nothing beyond the second; workers pass over each other's rows long before.
_WORTH_KNOWING, _REFUSED = 5.0, 30.0


def aws_answers(live: LiveCase) -> Iterator[Diagnosis]:
    """Whether AWS describes each stream of the settings, and whether the Date of its answers, which is AWS's
    clock, agrees with this host's clock.
    """
    source = live.ports.source("doctor")
    for stream in live.settings.streams:
        try:
            facts = source.describe(stream.name)
        except Unreachable as error:
            yield Diagnosis(
                _AWS,
                Health.ILL,
                str(error),
                "Nothing else was asked. Check aws.region, aws.endpoint and the network",
            )
            return
        except HeadraceError as error:
            # That of a table's stream says itself what to check.
            advice = "" if is_dynamodb(stream.name) else "Check the stream's name, region and account"
            yield Diagnosis(_STREAMS, Health.ILL, str(error), advice)
        else:
            yield Diagnosis(
                _STREAMS,
                Health.WELL,
                f"{stream.name} is there; it keeps records for {time_in_words(facts.retention)}",
            )
            yield from lacking_images(live.settings, facts.stream.name, facts.view)
    aws, here = source.aws_now(), live.ports.clock.now()
    if aws is None:
        return
    ahead = (here - aws).total_seconds()
    sentence = f"this host's clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} AWS's"
    if abs(ahead) > _REFUSED:
        yield Diagnosis(
            _CLOCK,
            Health.ILL,
            f"{sentence}, and Headrace commits nothing while they differ by more than {_REFUSED:.0f} s",
            "Let the host set its clock (chrony, systemd-timesyncd); landing goes on by itself then",
        )
    else:
        health = Health.NOTE if abs(ahead) > _WORTH_KNOWING else Health.WELL
        advice = (
            "Let the host set its clock: KCL's workers go by the time of rows"
            if health is Health.NOTE
            else ""
        )
        yield Diagnosis(_CLOCK, health, sentence, advice)
