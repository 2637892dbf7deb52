"""PodGroups of coscheduling.muster.dev (KEP-3370)."""

from tests.support.admission.case import (
    DUPLICATE,
    INVALID,
    REQUIRED,
    TOO_MANY,
    TYPE,
    Case,
    accepted,
    changed,
)
from tests.support.admission.case import refused as no
from tests.support.admission.objects import subsets, with_metadata

SUBSETS, LEAST = "spec.subsets", "spec.subsets[0].minMember"
TIMEOUT = "spec.scheduleTimeoutSeconds"
TWO = subsets(("ps", 1), ("worker", 4))

CASES: tuple[Case, ...] = (
    accepted("one subset without a name", subsets((None, 3))),
    accepted("one subset with a name", subsets(("worker", 3))),
    accepted("two subsets", TWO),
    accepted("eight subsets", subsets(*((f"s{at}", 1) for at in range(8)))),
    accepted("a time-out", subsets((None, 3), scheduleTimeoutSeconds=60)),
    no("no subsets", subsets(), (SUBSETS, REQUIRED)),
    no("nine subsets", subsets(*((f"s{at}", 1) for at in range(9))), (SUBSETS, TOO_MANY)),
    no("a subset of none", subsets((None, 0)), (LEAST, INVALID)),
    no("a subset without minMember", subsets(("worker", None)), (LEAST, REQUIRED)),
    no("a minMember that is a text", subsets(("worker", "3")), (LEAST, TYPE)),
    no(
        "one of two subsets without a name",
        subsets(("ps", 1), (None, 4)),
        ("spec.subsets[1].name", REQUIRED),
    ),
    no(
        "two subsets of one name",
        subsets(("ps", 1), ("ps", 4)),
        ("spec.subsets[1].name", DUPLICATE),
        server=(("spec.subsets[1]", DUPLICATE),),
    ),
    no(
        "a subset name that is no DNS label",
        subsets(("Worker", 3)),
        ("spec.subsets[0].name", INVALID),
    ),
    no("a time-out of 0", subsets((None, 3), scheduleTimeoutSeconds=0), (TIMEOUT, INVALID)),
    no(
        "faults of several subsets, all in one answer",
        subsets(("a", 0), ("b.c", -1), scheduleTimeoutSeconds=-5),
        (LEAST, INVALID),
        ("spec.subsets[1].name", INVALID),
        ("spec.subsets[1].minMember", INVALID),
        (TIMEOUT, INVALID),
    ),
    accepted(
        "KEP-3370: a name of 64 characters, which no label can hold, is worth a warning",
        with_metadata(subsets((None, 3)), name="x" * 64),
        warnings=("metadata.name: must be no more than 63 characters",),
    ),
    changed("another minMember", TWO, subsets(("ps", 2), ("worker", 8))),
    changed(
        "a time-out set later", TWO, subsets(("ps", 1), ("worker", 4), scheduleTimeoutSeconds=9)
    ),
    changed(
        "a minMember of 0",
        TWO,
        subsets(("ps", 0), ("worker", 4)),
        (LEAST, INVALID),
    ),
    changed("a subset more", subsets(("ps", 1)), TWO, (SUBSETS, INVALID)),
    changed("a subset less", TWO, subsets(("ps", 1)), (SUBSETS, INVALID)),
    changed("a subset renamed", subsets(("ps", 1)), subsets(("sp", 1)), (SUBSETS, INVALID)),
    changed("a label on the group", TWO, with_metadata(TWO, labels={"a": "b"})),
)
