"""What admission says: one table of cases that the rules, the webhook and a whole server must meet.

A case is data: a sentence, the objects of one request, and the answer wanted. Three runners use
it: `tests/api` (the rules alone), `tests/webhooks` (over HTTP), `e2e/admission` (an API server).
"""

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

__all__ = ["ALL", "CLASSES", "Case"]
