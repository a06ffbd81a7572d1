"""`<application>_parse`: the job that keeps all typed tables up with the lake table while records come.

One run follows several targets for `times.linger`, a wave of each in turn. The sensor `<application>_parse`
asks for its runs. Each wave that changes a typed table materializes the target's asset, so that what depends
on it is started. A target that fails ends the run, and its asset shows as failed; the next run goes on with
the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import dagster as dg

from headrace.assets.failure import RunFailed
from headrace.assets.names import parsed_key, quarantine_key, resource_key, slug
from headrace.assets.parsed import parsed_metadata, set_aside_metadata, totals_of_target
from headrace.assets.planned import plan
from headrace.pipeline.app.wiring import Wiring
from headrace.pipeline.core.words.words import counted
from headrace.pipeline.errors import Unknown
from headrace.pipeline.settings.blocks.parse import ParseSettings
from headrace.pipeline.settings.model import Settings
from headrace.pipeline.settings.targets import targets_of
from headrace.pipeline.typed.done_wave import Wave
from headrace.pipeline.typed.following import EVERY, Following
from headrace.resources.runs import FAILED_TARGETS_TAG


def follow_op(settings: Settings) -> str:
    return f"parse_{slug(settings.application)}"


def build_follow(wiring: Wiring) -> dg.JobDefinition:
    settings = wiring.settings
    names = [target.name for target in settings.parse]

    @dg.op(
        name=follow_op(settings),
        # The resource `spark` ends the Spark session together with the run.
        required_resource_keys={resource_key(settings, "spark")},
        pool=settings.dagster.pools.get("parse"),
        config_schema={
            "targets": dg.Field(
                [str], default_value=names, description="The targets to follow. Default: all."
            )
        },
        description="Parse what the lake table has and the typed tables lack, as long as records come.",
    )
    def follow(context: dg.OpExecutionContext) -> dg.Output[None]:
        followed = context.op_config["targets"]
        try:
            for name in sorted(set(followed)):
                targets_of(settings, name)
        except Unknown as error:
            raise RunFailed(str(error), {}) from error
        _Follower(context, wiring, {t.name: t for t in settings.parse if t.name in followed}).run()
        return dg.Output(None)

    @dg.job(
        # In the run's own process: a process for each step would load Headrace once more.
        name=f"{slug(settings.application)}_parse",
        description=__doc__,
        executor_def=dg.in_process_executor,
    )
    def job() -> None:
        follow()

    return job


@dataclass(slots=True)
class _Follower:
    """One run of the job: follows targets, and reports to Dagster."""

    context: dg.OpExecutionContext
    wiring: Wiring
    targets: Mapping[str, ParseSettings]
    _unreported: dict[str, list[Wave]] = field(default_factory=dict)
    """Waves since the target's last materialization, by its name."""
    _reported_at: dict[str, float] = field(default_factory=dict)
    """When each target was last materialized, by the monotonic clock."""

    def run(self) -> None:
        run_id, clock = self.context.run_id, self.wiring.ports.clock
        following = Following(
            parsings={
                name: self.wiring.targets.parsing(target, run_id) for name, target in self.targets.items()
            },
            clock=clock,
            on_wave=self._note,
        )
        try:
            following.follow(self.wiring.settings.times.linger)
        finally:
            # Also of a run that is terminated: what has landed is there.
            for name in list(self._unreported):
                self._materialize(name)
        if following.failed:
            self._fail(following.failed)

    def _note(self, name: str, wave: Wave) -> None:
        for note in wave.notes:
            self.context.log.warning("%s: %s", name, note)
        if wave.snapshot is None and not wave.settled:
            return
        self.context.log.info("%s: %s", name, wave)
        self._unreported.setdefault(name, []).append(wave)
        since = self.wiring.ports.clock.monotonic() - self._reported_at.get(name, float("-inf"))
        if wave.is_last or since >= EVERY.total_seconds():
            self._materialize(name)

    def _materialize(self, name: str) -> None:
        settings, ports, target = self.wiring.settings, self.wiring.ports, self.targets[name]
        waves = self._unreported.pop(name)
        metadata = {**parsed_metadata(target, waves), **totals_of_target(ports, settings, target)}
        self.context.log_event(dg.AssetMaterialization(parsed_key(settings, target), metadata=metadata))
        if any(wave.aside for wave in waves):
            event = dg.AssetMaterialization(
                quarantine_key(settings, target), metadata=set_aside_metadata(ports, target, waves)
            )
            self.context.log_event(event)
        self._reported_at[name] = self.wiring.ports.clock.monotonic()

    def _fail(self, failed: Mapping[str, str]) -> None:
        sentences = {name: _named(name, why) for name, why in failed.items()}
        for name, sentence in sentences.items():
            self.context.log.warning(sentence)
            # Without it the asset of a failed target would go on looking as good as before.
            plan(self.context, parsed_key(self.wiring.settings, self.targets[name]))
        # Dagster doesn't show an asset as failed whose latest materialization is of the failed run. The next
        # run tries such a target at once, and materializes nothing of it.
        waiting = sorted(failed.keys() - self._reported_at.keys())
        self.context.instance.add_run_tags(
            self.context.run_id, {FAILED_TARGETS_TAG: ",".join(waiting) or "none"}
        )
        metadata = {name: dg.MetadataValue.text(why) for name, why in failed.items()}
        raise RunFailed(f"{counted(len(failed), 'target')} failed; {sentences[min(sentences)]}", metadata)


def _named(name: str, why: str) -> str:
    return why if why.startswith(f"{name}:") else f"{name}: {why}"
