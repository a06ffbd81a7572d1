"""Faults from outside that happen at random times: processes are killed, rows vanish, streams are recreated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from headrace.pipeline.errors import ChainBroken
from tests.simulation.hosts import Deployment
from tests.simulation.machine import Host
from tests.simulation.scheduler import Process
from tests.simulation.troubles.thief import Thief
from tests.simulation.troubles.tidying import tidy
from tests.simulation.world import World

_MOST_OPEN = 10
_UNTELLABLE = frozenset({"wipe_rows", "drop_tables", "drop_row", "recreate"})
"""What happens to rows of KCL's only after their adoption: before it, nothing but these rows tells what they say, and for which life of a stream."""


class Troubles:
    """Lets the faults of the plan happen, each at random times."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._stopped: set[str] = set()

    def start(self) -> None:
        for name in self.world.plan.troubles:
            self._next(name)
        if self.world.plan.mix.stale:
            self._keep_stale_copy()
        self.world.call_faults.are_on = True
        self.world.sim.at(self.world.plan.fault_seconds, self.end)

    def end(self) -> None:
        """End the faults. What is dead, frozen or hung stays so; at least one host and one worker are brought back
        if none is alive."""
        world = self.world
        world.call_faults.are_on = False
        world.call_faults.down.clear()
        world.typed.end_faults()
        world.source.denied.clear()
        world.note("world", "no new faults happen from here on")
        if not any(d.is_up for d in world.deployments):
            self._revive(world.deployments[0].host, lost=False)
        at_work = [w for d in world.deployments if d.host.alive for w in d.workers if w not in self._stopped]
        if not at_work:
            for worker in sorted(self._stopped):
                world.workers.set_stopping(worker, stopping=False)
        for deployment in world.deployments:
            if deployment.host.alive and not any(host.alive for host in deployment.run_hosts):
                self._revive(deployment.run_hosts[0], lost=False)

    def _next(self, name: str) -> None:
        world = self.world
        wait = world.rng.expovariate(1.0 / world.plan.troubles[name])
        if world.sim.now + wait < world.plan.fault_seconds:
            world.sim.after(wait, lambda: self._happen(name))

    def _happen(self, name: str) -> None:
        if self.world.adoption.is_awaited and name in _UNTELLABLE:
            self._next(name)
            return
        self.world.call_faults.last_fault = self.world.sim.now
        self.world.call_faults.happened[name] += 1
        trouble: Callable[[], None] = getattr(self, name)
        trouble()
        self._next(name)

    def _keep_stale_copy(self) -> None:
        self.world.leases.keep_stale_copy()
        self.world.sim.after(self.world.rng.uniform(2.0, 20.0), self._keep_stale_copy)

    def _note(self, what: str) -> None:
        self.world.note("trouble", what)

    # -- processes ---------------------------------------------------------------------------------------------

    def _a_run(self) -> Process | None:
        at_work = [r.process for r in self.world.runs.values() if r.process.alive and r.process.on_death]
        return self.world.rng.choice(at_work) if at_work else None

    def _a_deployment(self) -> Deployment | None:
        up = [d for d in self.world.deployments if d.is_up]
        return self.world.rng.choice(up) if up else None

    def kill_run(self) -> None:
        if (process := self._a_run()) is not None:
            self._note(f"SIGKILL of {process}")
            self.world.sim.kill(process)

    def kill_server(self) -> None:
        if (deployment := self._a_deployment()) is not None and deployment.server is not None:
            self._note(f"SIGKILL of {deployment.server}")
            self.world.sim.kill(deployment.server)

    def reload(self) -> None:
        if (deployment := self._a_deployment()) is not None:
            self._note(f"code reload on {deployment.host.name}")
            deployment.reload()

    def kill_host(self) -> None:
        world, rng = self.world, self.world.rng
        alive = [host for host in world.hosts if host.alive]
        if not alive:
            return
        host = rng.choice(alive)
        back = rng.choice((5.0, 15.0, 40.0, 100.0, None, None))
        self._note(f"host {host.name} dies, {'for good' if back is None else f'back in {back:.0f} s'}")
        world.lose(host)
        if back is not None:
            world.sim.after(back, lambda: self._revive(host, lost=rng.random() < 0.2))

    def _revive(self, host: Host, *, lost: bool) -> None:
        if not host.alive and self.world.sim.now >= self.world.hosts_off_until:
            self._note(f"host {host.name} is back{', its Dagster storage is new' if lost else ''}")
            self.world.revive(host, lost=lost)

    def freeze_run(self) -> None:
        if (process := self._a_run()) is not None:
            self._freeze([process], str(process))

    def freeze_server(self) -> None:
        if (deployment := self._a_deployment()) is not None and deployment.server is not None:
            self._freeze([deployment.server], str(deployment.server))

    def freeze_host(self) -> None:
        host = self.world.rng.choice(self.world.hosts)
        self._freeze(list(host.processes), host.name)

    def _freeze(self, processes: list[Process], name: str) -> None:
        seconds = self.world.rng.choice((3.0, 15.0, 26.0, 45.0, 70.0, 130.0))
        self._note(f"SIGSTOP of {name} for {seconds:.0f} s")
        for process in processes:
            self.world.sim.freeze(process, seconds)

    def false_verdict(self) -> None:
        open_runs = [
            (d.instance, run_id)
            for d in self.world.deployments
            for its in d.instance.open.values()
            for run_id in its
        ]
        if open_runs:
            instance, run_id = self.world.rng.choice(open_runs)
            self._note(f"{run_id} is declared failed")
            instance.end(run_id)

    def jump(self) -> None:
        host, by = self.world.rng.choice(self.world.hosts), self.world.rng.uniform(-120.0, 120.0)
        self._note(f"the clock of {host.name} jumps by {by:.1f} s")
        self._move_clock(host, by)

    def set_back(self) -> None:
        """The clock of a code server's host is set back by minutes, and soon after a run of that deployment is killed."""
        world, rng = self.world, self.world.rng
        fits = [d for d in world.deployments if d.is_up and any(d.instance.open.values())]
        if not fits:
            return
        deployment, by = rng.choice(fits), rng.uniform(60.0, 200.0)
        self._note(f"the clock of {deployment.host.name} is set back by {by:.1f} s")
        self._move_clock(deployment.host, -by)
        world.sim.after(rng.uniform(11.0, 20.0), lambda: self._kill_a_run_of(deployment))

    def _move_clock(self, host: Host, by: float) -> None:
        host.offset += by
        self.world.jumps.append((self.world.sim.now, host))
        if by < 0:
            self.world.waiting.note_set_back(host)

    def _kill_a_run_of(self, deployment: Deployment) -> None:
        runs = [
            run for run in self.world.runs.values() if run.instance is deployment.instance and run.is_at_work
        ]
        if runs:
            process = self.world.rng.choice(runs).process
            self._note(f"SIGKILL of {process}")
            self.world.sim.kill(process)

    def ask(self) -> None:
        """Let a person start a run for one or two shards by name."""
        deployment = self._a_deployment()
        rows = sorted(row.key for row in self.world.leases.rows.values() if not row.has_ended)
        if deployment is None or not rows:
            return
        keys = tuple(self.world.rng.sample(rows, min(2, len(rows))))
        owner = self.world.leases.rows[keys[0]].holder
        if owner in deployment.workers:
            self._note(f"a person starts a run for {', '.join(keys)}")
            if self.world.rng.random() < 0.5:
                deployment.launch(owner, keys=keys)
            else:
                deployment.consume(owner, keys)

    def stop(self) -> None:
        world = self.world
        every = [worker for d in world.deployments for worker in d.workers]
        worker = world.rng.choice(every)
        if world.tables_missing or worker in self._stopped:
            return
        if len(self._stopped) + 1 >= len(every):
            return
        self._note(f"{worker} is asked to stop")
        self._stopped.add(worker)
        world.workers.set_stopping(worker, stopping=True)
        if world.rng.random() < 0.7:
            world.sim.after(world.rng.uniform(5.0, 120.0), lambda: self._go_on(worker))

    def _go_on(self, worker: str) -> None:
        self._note(f"{worker} may work again")
        self._stopped.discard(worker)
        self.world.workers.set_stopping(worker, stopping=False)

    # -- services and tables -----------------------------------------------------------------------------------

    def _outage(self, service: str) -> None:
        seconds = self.world.rng.uniform(30.0, 120.0)
        self._note(f"{service} is unavailable for {seconds:.0f} s")
        self.world.call_faults.down[service] = self.world.sim.now + seconds

    def dynamo_outage(self) -> None:
        self._outage("dynamo")

    def kinesis_outage(self) -> None:
        self._outage("kinesis")

    def lake_outage(self) -> None:
        self._outage("lake")

    def deny(self) -> None:
        """Let Kinesis answer ResourceNotFound for a while, falsely, for a shard or for a stream."""
        world, rng = self.world, self.world.rng
        shards = [s for s in world.truth.shards.values() if world.truth.lives(s.key.stream)]
        shard = rng.choice(shards[-12:])
        what = shard.key.stream.name if rng.random() < 0.25 else shard.key
        seconds = rng.choice((5.0, 20.0, 60.0, 150.0))
        self._note(f"Kinesis denies for {seconds:.0f} s that {what} exists")
        world.source.denied[what] = world.sim.now + seconds

    def wipe_rows(self) -> None:
        self._note("all lease rows are deleted")
        self.world.leases.store.wipe()

    def drop_tables(self) -> None:
        world = self.world
        self._note("the coordination tables are deleted")
        world.leases.store.wipe()
        world.lock.wipe()
        for worker in world.workers.listing().workers:
            world.workers.wipe(worker.worker_id)
        self._stopped.clear()
        world.tables_missing = True

    def drop_row(self) -> None:
        rows = sorted(self.world.leases.rows)
        if rows:
            key = self.world.rng.choice(rows)
            self._note(f"the row {key} is deleted")
            self.world.leases.store.wipe(key)

    def drop_lock(self) -> None:
        self._note("the leader's lock is deleted")
        self.world.lock.wipe()

    def drop_worker_row(self) -> None:
        rows = self.world.workers.listing().workers
        if rows:
            worker = self.world.rng.choice(rows).worker_id
            self._note(f"the worker row {worker} is deleted")
            self._stopped.discard(worker)
            self.world.workers.wipe(worker)

    def steal(self) -> None:
        Thief(self.world).steal()

    def roll_back(self) -> None:
        self.world.people.roll_back()

    def roll_forward(self) -> None:
        self.world.people.roll_back(forward=True)

    def expire(self) -> None:
        self.world.people.expire()

    def skip(self) -> None:
        self.world.people.skips.begin()

    def compact(self) -> None:
        self.world.table.compact()

    def delete_rows(self) -> None:
        """Another engine deletes rows of a data file by a delete file."""
        world = self.world
        with suppress(ChainBroken):
            files = sorted(file.path for file in world.table.files_at(world.table.head))
            if files:
                path = world.rng.choice(files)
                name = f"{path}.{world.sim.now:.0f}.deletes"
                world.live.deletes[path] = world.live.deletes.get(path, frozenset()) | {name}
                self._note(f"another engine deletes rows of {path}")
                # Its commit is a snapshot: a commit that was on its way doesn't pass it.
                world.table.compact()

    def upkeep(self) -> None:
        """The upkeep job of a deployment, of which several may be at work at once."""
        if (deployment := self._a_deployment()) is not None:
            deployment.upkeep()

    def tidy(self) -> None:
        tidy(self.world)

    # -- enhanced fan-out ------------------------------------------------------------------------------------------

    def take_over(self) -> None:
        self.world.fan_out.take_over()

    def deregister(self) -> None:
        self.world.fan_out.deregister()

    def change_retrieval(self) -> None:
        self.world.fan_out.change_retrieval()

    # -- the stream --------------------------------------------------------------------------------------------

    def split(self) -> None:
        shards = self.world.truth.open_shards()
        if len(shards) < _MOST_OPEN:
            self.world.split(self.world.rng.choice(shards))

    def merge(self) -> None:
        pairs = self.world.neighbours()
        if pairs:
            self.world.merge(*self.world.rng.choice(pairs))

    def recreate(self) -> None:
        self.world.recreate()
