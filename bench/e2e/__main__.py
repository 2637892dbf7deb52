"""Scheduling from end to end on the real control plane, beside kube-scheduler.

    python -m bench.e2e                                  every case: about 15 minutes
    python -m bench.e2e --case gangs-3 --subject muster  one scheduler in one case
    python -m bench.e2e --case plain --nodes 500 --share 0.1   a small one, while developing

Each scheduler of each case has a fresh control plane of its own: etcd and kube-apiserver, nodes
that are only objects, and nothing else that works. Compare numbers of one run only. `--record`
keeps the results in bench/results/e2e.json and renews docs/performance.md.
"""

import argparse
import sys

import uvloop

from bench.e2e.cases import ALL, CASES, Case
from bench.e2e.results import Result, keep, table
from bench.e2e.run import measure


async def run(cases: list[Case], subjects: list[str]) -> list[Result]:
    results = []
    for case in cases:
        for subject in case.subjects:
            if subject in subjects:
                result = await measure(case, subject)
                results.append(result)
                print(table([result]).splitlines()[-1], flush=True)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--case", action="append", choices=list(CASES), help="default: all")
    parser.add_argument("--subject", action="append", choices=ALL, help="default: all")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--share", type=float, default=1.0, help="of the gangs or plain pods")
    parser.add_argument("--record", action="store_true", help="keep the results and show them")
    options = parser.parse_args()
    cases = [CASES[name].scaled(options.nodes, options.share) for name in options.case or CASES]
    results = uvloop.run(run(cases, options.subject or list(ALL)))
    print(table(results))
    if options.record:
        from bench import page

        keep(results)
        page.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
