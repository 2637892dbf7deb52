"""Runs instances and courses in sequence, until the time is over."""

import asyncio
import hashlib
import json
import re
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, count
from pathlib import Path

from tests.scheduler.crossings.course import Course
from tests.scheduler.crossings.draw import Instance, draw, features
from tests.scheduler.crossings.play import play
from tests.scheduler.crossings.shrink import as_test, shrunk


@dataclass
class Totals:
    """The counts: instances or courses, decisions or bindings, and pairs of features."""

    runs: int = 0
    failed: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    pairs: Counter[str] = field(default_factory=Counter)

    def note(self, instance: Instance) -> None:
        self.runs += 1
        found = features(instance)
        self.pairs.update(found)
        self.pairs.update(f"{one} x {two}" for one, two in combinations(found, 2))

    def text(self) -> str:
        outcomes = ", ".join(f"{number} {what}" for what, number in self.outcomes.items())
        pairs = {pair: number for pair, number in self.pairs.items() if " x " in pair}
        rare = ", ".join(f"{pair} {number}" for pair, number in Counter(pairs).most_common()[-5:])
        return (
            f"{self.runs} runs, {self.failed} failed; {outcomes}; {len(pairs)} pairs of features;"
            f" the rarest: {rare}\n"
        )

    def save(self, path: str) -> None:
        """Add the totals to those in the file."""
        file = Path(path)
        before = json.loads(file.read_text()) if file.exists() else {}
        own = {"runs": self.runs, "failed": self.failed}
        for key, number in own.items():
            before[key] = before.get(key, 0) + number
        for key, counter in (("outcomes", self.outcomes), ("pairs", self.pairs)):
            before[key] = dict(Counter(before.get(key, {})) + counter)
        file.write_text(json.dumps(before, indent=1, sort_keys=True))


def instances(seed: str, seconds: float, totals: Totals, most: int = 10) -> Iterator[str]:
    """Yield failures, one of each kind, until the CPU time is over."""
    until, seen = time.process_time() + seconds, set[str]()
    for number in count():
        if time.process_time() >= until or len(seen) >= most:
            return
        instance = draw(f"{seed}/{number}")
        totals.note(instance)
        found, decisions = played(instance)
        for each in decisions:
            placed = "placed" if each.get("places") else "refused"
            placed = "moves" if "moves" in each else placed
            totals.outcomes["plans" if "victims" in each else placed] += 1
        if found:
            totals.failed += 1
            if kind_of(found) not in seen:
                seen.add(kind_of(found))
                yield report(f"{seed}/{number}", instance, found)


def digest(seed: str, runs: int) -> str:
    """Return a hash of all decisions, which is the same in each process."""
    found = hashlib.sha256()
    for number in range(runs):
        complaint, decisions = played(draw(f"{seed}/{number}"))
        found.update(json.dumps([complaint, decisions]).encode())
    return found.hexdigest()


def report(seed: str, instance: Instance, found: str) -> str:
    """Return the failure as a test of a few lines."""
    kind = kind_of(found)
    small = shrunk(instance, lambda it: kind_of(played(it)[0]) == kind)
    return f"# seed {seed}: {played(small)[0]}\n{as_test(small, kind)}"


def played(instance: Instance) -> tuple[str, list[Instance]]:
    """Return the first violation, or the raised error; empty without failure."""
    try:
        found, decisions = play(instance)
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error} in {last.name}", []
    return (found[0] if found else ""), decisions


def kind_of(found: str) -> str:
    """Return the violation without names and numbers."""
    return re.sub(r"[\w./-]*\d[\w./-]*", "#", found)


def courses(seed: str, seconds: float, totals: Totals, most: int = 10) -> Iterator[str]:
    """Yield failures of courses, like `instances`."""
    until, seen = time.process_time() + seconds, set[str]()
    for number in count():
        if time.process_time() >= until or len(seen) >= most:
            return
        course = Course(f"{seed}/{number}")
        asyncio.run(course.run())
        totals.note(course.instance)
        totals.outcomes["bound"] += len(course.bound)
        totals.outcomes["deaths"] += course.log.count("_dies")
        totals.outcomes["deleted"] += course.log.count("evict")
        if course.complaints:
            totals.failed += 1
            kind = kind_of(course.complaints[0])
            if kind not in seen:
                seen.add(kind)
                log = "\n".join(f"    {line}" for line in course.log[-30:])
                yield f"# course {course.seed}: {course.complaints[0]}\n{log}\n"
