"""Scheduling from end to end on the real control plane, compared to kube-scheduler.

   python -m tools.bench.end_to_end                                  every case: about 45 minutes
   python -m tools.bench.end_to_end --claims                         those with claims for devices
   python -m tools.bench.end_to_end --suite                          those of scheduler_perf
   python -m tools.bench.end_to_end --case gangs-3 --subject muster  one scheduler in one case
   python -m tools.bench.end_to_end --case plain --nodes 500 --share 0.1  a small one

Each scheduler of each case has a fresh control plane of its own: etcd and kube-apiserver, nodes
that are only objects, and no other active component. For the raw rate, it and Muster are measured
in turns, several times, and their middle runs are kept: the speed of a shared machine changes by
the minute. Compare numbers of one run only. `--record` stores the results of each case in
tools/bench/results/e2e.json as it ends, so that an interrupted run keeps what it has measured. It
also updates docs/performance-results.md.
"""

import argparse
import sys
from dataclasses import replace

import uvloop

from tools.bench.end_to_end.cases import CASES, KUBE_SCHEDULER, WITH_NATIVE, Case
from tools.bench.end_to_end.results import Result, keep, middle, table
from tools.bench.end_to_end.run import measure

_SHOWN = 20


async def run(cases: list[Case], subjects: list[str], *, record: bool) -> tuple[list[Result], int]:
    """Return the middle run of each subject in each case, and the number of runs with faults.

    With `record`, each case is stored when it ends.
    """
    results, faulty = list[Result](), 0
    for case in cases:
        found: dict[str, list[Result]] = {name: [] for name in case.subjects if name in subjects}
        for number in range(case.rounds):
            for subject, runs in found.items():
                if number and subject == KUBE_SCHEDULER:
                    continue  # it is far behind, and slow
                result = await measure(case, subject)
                runs.append(result)
                print(table([result]).splitlines()[-1], flush=True)
                for fault in result.faults[:_SHOWN]:
                    print(f"{case.name}, {subject}: {fault}", flush=True)
                faulty += bool(result.faults)
        middles = [middle(runs) for runs in found.values()]
        if record:
            _record(middles)
        results += middles
    return results, faulty


def _record(results: list[Result]) -> None:
    from tools.bench import page

    keep(results)
    page.write()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--case", action="append", choices=list(CASES), help="default: all without claims"
    )
    parser.add_argument("--claims", action="store_true", help="all cases with claims")
    parser.add_argument("--suite", action="store_true", help="all cases of scheduler_perf")
    parser.add_argument("--subject", action="append", choices=WITH_NATIVE, help="default: all")
    parser.add_argument("--nodes", type=int, help="default: the case's own number")
    parser.add_argument("--share", type=float, default=1.0, help="of the gangs or plain pods")
    parser.add_argument("--quick", action="store_true", help="a tenth of the pods on 200 nodes")
    parser.add_argument("--rounds", type=int, help="of the raw rate and Muster; default: up to 5")
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    chosen = options.case or [
        name
        for name, case in CASES.items()
        if case.suite == options.suite and (options.suite or bool(case.claims) == options.claims)
    ]
    if options.quick:
        options.nodes, options.share = options.nodes or 200, options.share / 10
    cases = [CASES[name].scaled(options.nodes, options.share) for name in chosen]
    if options.rounds:
        cases = [replace(case, rounds=options.rounds) for case in cases]
    subjects = options.subject or list(WITH_NATIVE)
    results, faulty = uvloop.run(run(cases, subjects, record=options.record))
    print(table(results))
    return 1 if faulty else 0


if __name__ == "__main__":
    sys.exit(main())
