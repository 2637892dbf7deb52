"""Measure the share of random one-line changes that unit tests catch: `python -m tools.mutation`.

The first run for a state of the files records which tests execute what, which takes a little longer
than all unit tests. Results are written to a JSON file; while the run lasts, the file of that name
in .jsonl gets a line for each mutant. `--mutants` takes the JSON file and runs the same mutants
again, with other tests or on later code. Tests that start processes do not see mutants.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from tools.mutation.mutants import InvalidMutantError, Prepared, draw, find_again
from tools.mutation.project import ROOT, TARGETS, TESTS, Project
from tools.mutation.recording import recording
from tools.mutation.report import summary, survivors
from tools.mutation.running import run


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutation", description=__doc__)
    add = parser.add_argument
    add("--seed", type=int, default=0, help="what the mutants are drawn from")
    add("--count", type=int, default=300, help="how many mutants")
    add("--only", metavar="PATH", help="only mutants of this file or folder")
    add("--mutants", type=Path, metavar="FILE", help="the mutants of an earlier run's JSON file")
    add("--jobs", type=int, default=1, help="how many processes run mutants")
    add("--output", type=Path, metavar="FILE", help="default: .cache/mutation/results-SEED.json")
    add("--list", action="store_true", help="print the mutants and run nothing")
    add("--root", type=Path, default=ROOT, help="another project")
    add("--target", action="append", help=f"folders of code, default: {', '.join(TARGETS)}")
    add("--tests", action="append", help=f"folders of tests, default: {', '.join(TESTS)}")
    return parser.parse_args()


def _again(project: Project, file: Path) -> list[Prepared]:
    found = []
    for row in json.loads(file.read_text("utf-8")):
        try:
            found.append(find_again(project, row))
        except InvalidMutantError as error:
            print(f"left out: {error}", file=sys.stderr)
    return found


def main() -> None:
    given = _arguments()
    project = Project(
        given.root.resolve(), tuple(given.target or TARGETS), tuple(given.tests or TESTS)
    )
    name = given.mutants.stem if given.mutants else f"results-{given.seed}"
    output = (given.output or project.cache / f"{name}.json").resolve()
    if given.mutants:
        mutants = _again(project, given.mutants)
    else:
        mutants = draw(project, given.count, given.seed, given.only)
    if given.list:
        print(json.dumps([asdict(prepared.mutant) for prepared in mutants], indent=1))
        return
    os.chdir(project.root)
    sys.path.insert(0, str(project.root))
    rows = run(project, recording(project), mutants, output.with_suffix(".jsonl"), given.jobs)
    output.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print("\n".join(summary(project, rows)), *survivors(rows), f"all: {output}", sep="\n")


if __name__ == "__main__":
    main()
