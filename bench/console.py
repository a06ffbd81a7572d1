"""What does the console cost with 4,000 shards, and how soon does its page show something?

The tables are on the stand-in of AWS, in KCL's form. The goals: the page's first paint takes less than a second, and a page
that is open while nothing changes costs the console at most 50 ms of CPU a second (a look takes what it takes; the next one
comes the later). Told beside them: the answers' bytes, when all shards are drawn, which waits for the first look, and how
long the browser takes to draw them anew. The exit code is 1 if a goal is missed.

    python bench/console.py            4,000 shards, ten looks
    python bench/console.py --quick    1,000 shards, three looks

The first paint needs Chromium and is left out, with a sentence, where there is none.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import time
import urllib.request
from dataclasses import dataclass

from headrace.pipeline.aws.clients.clients import dynamodb_client
from headrace.pipeline.console.serve import bound, served_beside
from headrace.pipeline.console.server import Console, app_of
from headrace.pipeline.console.wiring import ShownApplication, console_of
from headrace.pipeline.inspect.read import TableNames
from headrace.pipeline.local.endpoint import LocalAws, local_aws
from headrace.pipeline.settings.blocks.aws import AwsSettings
from tests.cli.kcl_tables import KclTables, a_lease, a_lock, a_worker

CPU_A_SECOND, FIRST_PAINT = 0.050, 1.0
_DRAWING = """() => Math.min(...[1, 2, 3, 4, 5].map(() => {
  const began = performance.now(); arrangeHeat(); drawRiver(); return performance.now() - began; }))"""
WORKERS = 80


@dataclass(frozen=True, slots=True)
class Result:
    what: str
    value: float
    goal: float
    unit: str

    @property
    def is_fine(self) -> bool:
        return self.value <= self.goal

    def __str__(self) -> str:
        mark = "" if self.is_fine else "   NOT REACHED"
        return f"{self.what}: {self.value:.3f} {self.unit}, goal {self.goal:g}{mark}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 shards, three looks")
    quick = parser.parse_args().quick
    shards, looks = (1_000, 3) if quick else (4_000, 10)
    with local_aws("--transition", "0") as aws:
        os.environ |= aws.environment
        console = console_of(
            ShownApplication(application="bench", tables=tables(aws, shards), aws=place(aws))
        )
        with served_beside(app_of(console), bound("127.0.0.1", 0)) as address:
            results = [at_rest(address, console, shards, looks), *painted(address)]
    print(*results, sep="\n")
    sys.exit(0 if all(result.is_fine for result in results) else 1)


def place(aws: LocalAws) -> AwsSettings:
    return AwsSettings(region=aws.region, endpoint=aws.endpoint)


def tables(aws: LocalAws, shards: int) -> TableNames:
    kcl = KclTables(dynamodb_client(place(aws)))
    names = [f"east-{number}" for number in range(WORKERS)]
    kcl.put(
        [
            a_lease(
                f"shardId-{n:012d}",
                n=n,
                of=shards,
                owner=names[n % WORKERS],
                throughputKBps={"N": str(n % 700)},
            )
            for n in range(shards)
        ]
    )
    kcl.put([*(a_worker(name, key="leaseKey") for name in names), a_lock(names[0], key="leaseKey")])
    return TableNames.of(kcl.lease_table)


def at_rest(address: str, console: Console, shards: int, looks: int) -> Result:
    """CPU of this process, which only serves, for each second that passes between two looks."""
    first = asked(f"{address}/api/look")
    look = json.loads(first)
    cpu = paused = 0.0
    for _ in range(looks):
        began = time.process_time()
        # Due at once, instead of after a pause in which nothing happens.
        report = console.watch.report(at_once=True)
        answer = asked(f"{address}/api/look?family={look['family']}&since={look['number']}")
        cpu += time.process_time() - began
        paused += report.again.total_seconds()
        look = {**look, "number": json.loads(answer)["number"]}
    print(
        f"{shards:,} shards: the first answer has {len(first):,} bytes ({len(gzip.compress(first, 5)):,} compressed), one at "
        f"rest {len(answer):,}; a look takes {cpu / looks:.3f} s of CPU and comes each {paused / looks:.1f} s"
    )
    return Result("CPU at rest, of one core", cpu / paused, CPU_A_SECOND, "s a second")


def asked(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def painted(address: str) -> list[Result]:
    from tests.console.browser import MISSING, a_page, chromium, launched

    if chromium() is None:
        print(f"the first paint wasn't measured: {MISSING}")
        return []
    with launched() as browser, a_page(browser) as page:
        page.goto(address)
        # The list is shown in the same task in which all shards are drawn.
        page.wait_for_selector("#list tbody tr")
        drawn = page.evaluate("performance.now()") / 1000
        paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime") / 1000
        drawing = page.evaluate(_DRAWING)
    print(
        f"all shards are drawn {drawn:.1f} s after the page was asked for; drawing them anew takes {drawing:.0f} ms"
    )
    return [Result("first paint", paint, FIRST_PAINT, "s")]


if __name__ == "__main__":
    main()
