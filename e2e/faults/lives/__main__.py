"""`python -m e2e.faults.lives --lives N --seed S --cluster local|real`: play lives S to S+N-1.

A failed life is shown with its number, its script and the remaining objects. Repeat it with
`--lives 1 --seed NUMBER`; `--drop 1,3` omits steps, `--shrink` searches for the shortest script
that still fails.
"""

import argparse
import asyncio
import sys
import time

from e2e.faults.lives import run
from e2e.faults.lives.drawing import draw
from e2e.faults.lives.run import AT_ONCE, Result
from e2e.faults.lives.script import Life
from e2e.harness.clusters.local import Local
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import Muster
from e2e.harness.running import Started, installed, started


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="e2e.faults.lives", description=__doc__)
    parser.add_argument("--lives", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first life")
    parser.add_argument("--cluster", choices=("local", "real"), default="local")
    parser.add_argument("--modes", help="only these, as in Gang,Own Gang; others are passed over")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--drop", default="", help="numbers of steps to leave out, as in 0,2")
    parser.add_argument(
        "--shrink", action="store_true", help="leave out what is not needed to fail"
    )
    parser.add_argument("--show", action="store_true", help="show the scripts and play nothing")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    dropped = frozenset(int(each) for each in given.drop.split(",") if each)
    numbers = range(given.seed, given.seed + given.lives)
    lives = [draw(number).without(dropped) for number in numbers]
    if given.modes:
        lives = [life for life in lives if life.mode in given.modes.split(",")]
    if given.show:
        _say("\n".join(line for life in lives for line in life.lines()))
        return 0
    cluster: Started = ControlPlane() if given.cluster == "real" else Local("--jobset-scaling")
    with started(cluster), installed(cluster) as muster:
        begun = time.monotonic()
        result = asyncio.run(run.play(lives, cluster, muster, _say, at_once=given.at_once))
        _say(f"{result.played} lives in {time.monotonic() - begun:.0f} s, {_failed(result)}")
        if given.shrink:
            for number in sorted(result.faults):
                asyncio.run(_shrink(draw(number).without(dropped), cluster, muster))
    return 1 if result.faults else 0


async def _shrink(life: Life, cluster: Started, muster: Muster) -> None:
    """Omit steps one by one; keep a step out if the life still fails without it."""
    shortest = ""
    for number in reversed(range(len(life.steps) - 1)):
        shorter = life.without(frozenset({number}))
        result = await run.play([shorter], cluster, muster, lambda _: None, at_once=1)
        if result.faults:
            life, shortest = shorter, result.faults[life.seed]
    _say(f"SHORTEST {shortest}" if shortest else f"{life.title} cannot be shortened")


def _failed(result: Result) -> str:
    if not result.faults:
        return "all went well"
    return f"{len(result.faults)} failed: {', '.join(map(str, sorted(result.faults)))}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
