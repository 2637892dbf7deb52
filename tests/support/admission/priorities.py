"""Priorities of groups: class name to number, as Kubernetes does it for pods."""

from tests.support.admission.case import FORBIDDEN, Case, accepted
from tests.support.admission.case import refused as no
from tests.support.admission.objects import composite_group, gang, pod_group

CLASS, NUMBER = ("spec.priorityClassName", FORBIDDEN), ("spec.priority", FORBIDDEN)

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
        "a class's preemption policy is taken",
        pod_group(priorityClassName="admission-never"),
        spec__priority=500,
        spec__preemptionPolicy="Never",
    ),
    accepted(
        "a preemption policy that is given stays",
        pod_group(priorityClassName="admission-never", preemptionPolicy="PreemptLowerPriority"),
        spec__preemptionPolicy="PreemptLowerPriority",
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
        "a fault of priority is told alone, before the rules",
        pod_group(schedulingPolicy=gang(0), priorityClassName="unheard-of"),
        CLASS,
        forbidden=True,
    ),
)
