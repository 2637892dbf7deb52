"""Priorities of groups: from class name to number, as Kubernetes does for pods."""

from tests.support.admission.case import FORBIDDEN, Case, accepted
from tests.support.admission.case import refused as no
from tests.support.admission.objects import (
    composite,
    composite_group,
    flat,
    gang,
    leaf,
    pod_group,
    tree,
)

CLASS, NUMBER = ("spec.priorityClassName", FORBIDDEN), ("spec.priority", FORBIDDEN)
POLICY = ("spec.preemptionPolicy", FORBIDDEN)
MODEST = {"priorityClassName": "admission-never", "preemptionPolicy": "Never"}
PREEMPTING = MODEST | {"preemptionPolicy": "PreemptLowerPriority"}

CASES: tuple[Case, ...] = (
    accepted(
        "no class: priority 0",
        pod_group(),
        spec__priority=0,
        spec__priorityClassName=None,
        spec__preemptionPolicy="PreemptLowerPriority",
    ),
    accepted("an empty class name: priority 0", pod_group(priorityClassName=""), spec__priority=0),
    accepted(
        "a class by name",
        pod_group(priorityClassName="admission-high"),
        spec__priority=1000,
        spec__preemptionPolicy="PreemptLowerPriority",
    ),
    accepted(
        "a composite's class by name",
        composite_group(priorityClassName="admission-high"),
        spec__priority=1000,
    ),
    accepted(
        "a class of a negative value",
        pod_group(priorityClassName="admission-low"),
        spec__priority=-5,
    ),
    accepted(
        "the class of the lowest value there is, with its number",
        pod_group(priorityClassName="admission-lowest", priority=-(2**31)),
        spec__priority=-(2**31),
    ),
    accepted(
        "the class of the highest value of users, with its number",
        pod_group(priorityClassName="admission-highest", priority=1_000_000_000),
        spec__priority=1_000_000_000,
    ),
    accepted(
        "a class's preemption policy is taken",
        pod_group(priorityClassName="admission-never"),
        spec__priority=500,
        spec__preemptionPolicy="Never",
    ),
    accepted(
        "a group may be more modest than its class",
        pod_group(priorityClassName="admission-high", preemptionPolicy="Never"),
        spec__preemptionPolicy="Never",
    ),
    accepted(
        "a class of the system's",
        pod_group(priorityClassName="system-cluster-critical"),
        spec__priority=2_000_000_000,
    ),
    accepted(
        "the number that the class has",
        pod_group(priorityClassName="admission-high", priority=1000),
        spec__priority=1000,
    ),
    accepted("number 0 without a class", pod_group(priority=0), spec__priority=0),
    no("an unknown class", pod_group(priorityClassName="unheard-of"), CLASS, forbidden=True),
    no(
        "an unknown class of a composite",
        composite_group(priorityClassName="unheard-of"),
        CLASS,
        forbidden=True,
    ),
    no(
        "an unknown class that is named like the system's",
        pod_group(priorityClassName="system-unheard-of"),
        CLASS,
        forbidden=True,
    ),
    no(
        "another number than the class has",
        pod_group(priorityClassName="admission-high", priority=7),
        NUMBER,
        forbidden=True,
    ),
    no("a number without a class", pod_group(priority=7), NUMBER, forbidden=True),
    no(
        "a number above the highest without a class",
        composite_group(priority=2_000_000_000),
        NUMBER,
        forbidden=True,
    ),
    no(
        "a group that would preempt under a class that never does",
        pod_group(priorityClassName="admission-never", preemptionPolicy="PreemptLowerPriority"),
        POLICY,
        forbidden=True,
    ),
    no(
        "a composite that would preempt under a class that never does",
        composite_group(
            priorityClassName="admission-never", preemptionPolicy="PreemptLowerPriority"
        ),
        POLICY,
        forbidden=True,
    ),
    no(
        "templates that would preempt under a class that never does, on every level",
        tree(
            composite(
                **PREEMPTING,
                podGroupTemplates=[leaf(**PREEMPTING), leaf("modest", **MODEST)],
            )
        ),
        ("spec.compositePodGroupTemplates[0].preemptionPolicy", FORBIDDEN),
        ("spec.compositePodGroupTemplates[0].podGroupTemplates[0].preemptionPolicy", FORBIDDEN),
        forbidden=True,
    ),
    accepted(
        "a template of a class that is not there yet",
        flat(leaf(**PREEMPTING | {"priorityClassName": "unheard-of"})),
    ),
    no(
        "a fault of priority is told alone, before the rules",
        pod_group(schedulingPolicy=gang(0), priorityClassName="unheard-of"),
        CLASS,
        forbidden=True,
    ),
)
