"""The stand-in's own endpoints, under /_headrace/: health, faults, clock, reset.

GET    /_headrace/health
GET    /_headrace/faults     the plan, with how often each fault matched and struck
POST   /_headrace/faults     a fault or a list of faults (fields: see faults.py)
DELETE /_headrace/faults     remove all faults
GET    /_headrace/callers    what each caller with a policy has asked for
POST   /_headrace/callers    {"access_key": ..., "policy": ...}: refuse this caller what the policy doesn't allow
DELETE /_headrace/callers    allow everybody everything
GET    /_headrace/reads      for each shard: iterators, calls, refused calls and bytes, over all its readers
GET    /_headrace/clock
POST   /_headrace/clock      {"advance_seconds": N} or {"offset_seconds": N}
POST   /_headrace/reset      forget streams, tables, buckets, faults, callers and the clock's offset
"""

from __future__ import annotations

import math
import time
from typing import Any

import orjson

from headrace.pipeline.local.callers import Callers
from headrace.pipeline.local.clock import MovableClock
from headrace.pipeline.local.faults import Fault
from headrace.pipeline.local.http_answer import HttpAnswer
from headrace.pipeline.local.http_reader import HttpRequest
from headrace.pipeline.local.kinesis.kinesis import Kinesis

PREFIX = "/_headrace/"


def control(request: HttpRequest, kinesis: Kinesis, clock: MovableClock, callers: Callers) -> HttpAnswer:
    """Answer a request to one of the endpoints. A request that can't be read gets a 400 with the reason."""
    route = request.method, request.target.partition("?")[0].removeprefix(PREFIX)
    try:
        given = orjson.loads(request.body) if request.body else None
        answered = _do(route, given, kinesis, clock, callers)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        return _json({"error": str(error)}, 400)
    return _json({"error": f"no {' '.join(route)} here"}, 404) if answered is None else _json(answered)


def _do(route: tuple[str, str], given: Any, kinesis: Kinesis, clock: MovableClock, callers: Callers) -> Any:
    match route:
        case ("GET", "health"):
            return {"status": "ok", "cpu_seconds": time.process_time()}
        case (method, "faults"):
            return _faults(method, given, kinesis)
        case (method, "callers"):
            return _limit(method, given, callers)
        case ("GET", "reads"):
            return kinesis.reads()
        case ("POST", "clock"):
            _move(clock, given)
            return _time(clock)
        case ("GET", "clock"):
            return _time(clock)
        case ("POST", "reset"):
            kinesis.reset()
            kinesis.faults.clear()
            callers.forget()
            clock.offset = 0.0
            return {"status": "reset"}
        case _:
            return None


def _faults(method: str, given: Any, kinesis: Kinesis) -> Any:
    match method:
        case "GET":
            return kinesis.faults.described()
        case "POST":
            # All are read before the first is added: a list with one broken fault changes nothing.
            for fault in [Fault.from_json(item) for item in (given if isinstance(given, list) else [given])]:
                kinesis.faults.add(fault)
            return kinesis.faults.described()
        case "DELETE":
            kinesis.faults.clear()
            return []
        case _:
            return None


def _limit(method: str, given: Any, callers: Callers) -> Any:
    match method:
        case "POST":
            callers.limit(given["access_key"], given["policy"])
        case "DELETE":
            callers.forget()
        case "GET":
            pass
        case _:
            return None
    return callers.described()


def _move(clock: MovableClock, given: Any) -> None:
    match given:
        case {"advance_seconds": int() | float() as seconds} if math.isfinite(seconds):
            clock.advance(seconds)
        case {"offset_seconds": int() | float() as seconds} if math.isfinite(seconds):
            clock.offset = float(seconds)
        case _:
            raise ValueError('clock: send {"advance_seconds": N} or {"offset_seconds": N}')


def _time(clock: MovableClock) -> dict[str, float]:
    return {"now": clock(), "offset_seconds": clock.offset}


def _json(value: Any, status: int = 200) -> HttpAnswer:
    return HttpAnswer(status, (("Content-Type", "application/json"),), orjson.dumps(value))
