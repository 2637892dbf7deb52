"""Runs the crossings: `python -m tests.scheduler.crossings --seconds 60 [--seed S] [--courses]`.

Prints each failure as a test of a few lines, and the number of instances with each pair of
features.
"""

import argparse
import os
import sys
import time

from tests.scheduler.crossings.run import Totals, courses, digest, instances


def main() -> int:
    """Run the crossings; return 1 if there was a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.scheduler.crossings")
    parser.add_argument("--seconds", type=float, default=60, help="of processor time")
    parser.add_argument("--seed", default=str(time.time_ns()), help="the same for the same seed")
    parser.add_argument("--courses", action="store_true", help="whole courses, not single states")
    parser.add_argument("--failures", type=int, default=10, help="end after so many kinds of them")
    parser.add_argument("--totals", default="", help="a file to which the totals are added")
    parser.add_argument("--digest", type=int, default=0, help="print a hash of so many runs alone")
    options = parser.parse_args()
    if options.digest:
        sys.stdout.write(f"{digest(options.seed, options.digest)}\n")
        return 0
    sys.stdout.write(f"seed {options.seed}, hash seed {os.environ.get('PYTHONHASHSEED')}\n")
    totals = Totals()
    run = courses if options.courses else instances
    for failure in run(options.seed, options.seconds, totals, options.failures):
        sys.stdout.write(f"{failure}\n")
        sys.stdout.flush()
    sys.stdout.write(totals.text())
    if options.totals:
        totals.save(options.totals)
    return int(totals.failed > 0)


if __name__ == "__main__":
    sys.exit(main())
