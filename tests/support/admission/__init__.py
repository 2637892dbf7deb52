"""One table of admission cases for the rules, the webhook and a complete API server.

A case is data: a sentence, the objects of one request, and the expected response. `tests/api`
decides every case by the rules alone. `tests/webhooks` (over HTTP) and `e2e/flows/admission/kinds`
(an API server) test the complete route: they take the cases of `EACH_ROUTE`, and all others with
`--long`.
"""

import pytest
from _pytest.mark import ParameterSet

from tests.support.admission import (
    coscheduling,
    groups,
    parts,
    priorities,
    trees,
    updates,
    versions,
    workloads,
)
from tests.support.admission.case import CLASSES, Case

ALL: tuple[Case, ...] = (
    *workloads.CASES,
    *trees.CASES,
    *parts.CASES,
    *groups.CASES,
    *priorities.CASES,
    *updates.CASES,
    *coscheduling.CASES,
    *versions.CASES,
)


def _each_route() -> list[ParameterSet]:
    """Return all cases as parameters; those whose route an earlier case takes are marked long."""
    taken: set[tuple[object, ...]] = set()
    parameters = []
    for case in ALL:
        marks = [pytest.mark.long] if case.route in taken else []
        taken.add(case.route)
        parameters.append(pytest.param(case, id=case.sentence, marks=marks))
    return parameters


EACH_ROUTE = _each_route()

__all__ = ["ALL", "CLASSES", "EACH_ROUTE", "Case"]
