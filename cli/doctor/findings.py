"""Findings as values, how they are shown, and what exit code they give."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from analysis.explain.plain_text import clean
from kube.base.errors import Forbidden, KubeError, NotFound, TooLarge, Unreachable

_IN_A_NAMESPACE: Final = 5
"""Findings of one kind and namespace. Further ones are counted."""

_IN_ALL: Final = 50
"""Findings of one kind. Further ones are counted."""


class Severity(enum.IntEnum):
    """How bad a finding is: something does not work, soon will not, or is worth knowing."""

    INFO = 0
    WARNING = 1
    ERROR = 2


EXIT_CODES: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 3}
"""By the highest severity. 2 is for bad arguments and a cluster that cannot be reached."""


@dataclass(frozen=True, slots=True)
class About:
    """The object that a finding is about; a cluster-scoped one has no namespace."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """`Kind namespace/name`."""
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found: by which check, on what, what is wrong, and what to do."""

    severity: Severity
    check: str
    about: About
    problem: str
    action: str

    def as_json(self) -> dict[str, Any]:
        """For machines; its texts are clean too, since they may end up on a terminal."""
        about = {"kind": self.about.kind, "namespace": self.about.namespace}
        return {
            "severity": self.severity.name.lower(),
            "check": self.check,
            "object": {
                key: clean(text) for key, text in (about | {"name": self.about.name}).items()
            },
            "problem": clean(self.problem),
            "action": clean(self.action),
        }


def error(check: str, about: About, problem: str, action: str) -> Finding:
    """Something does not work."""
    return Finding(Severity.ERROR, check, about, problem, action)


def warning(check: str, about: About, problem: str, action: str) -> Finding:
    """Something will not work for long, or not for somebody."""
    return Finding(Severity.WARNING, check, about, problem, action)


def info(check: str, about: About, problem: str, action: str = "") -> Finding:
    """Something worth knowing."""
    return Finding(Severity.INFO, check, about, problem, action)


def not_made(check: str, what: About, problem: KubeError) -> Finding:
    """The finding for a check that could not be made."""
    text, action = str(problem), "run it again once the API server answers that"
    match problem:
        case Forbidden():
            action = "run it as an administrator of the cluster, or give this account that right"
        case NotFound():
            action = "install what is missing, or name the right place"
        case TooLarge():
            action = "find out who makes objects of that size"
        case Unreachable():
            action = "see that the API server answers, then run it again"
    return warning(check, what, f"this check could not be made: {text}", action)


@dataclass(slots=True)
class Limited:
    """Findings about objects of tenants: so many of each check and namespace, the rest counted.

    Whatever one namespace contains, it leaves room for the findings of others.
    """

    check: str
    found: list[Finding] = field(default_factory=list)
    left_out: int = 0
    _of: Counter[str] = field(default_factory=Counter)

    def takes(self, namespace: str) -> bool:
        """Whether there is room for one more; if not it is counted as left out."""
        if self._of[namespace] < _IN_A_NAMESPACE and len(self.found) < _IN_ALL:
            return True
        self.left_out += 1
        return False

    def add(self, finding: Finding) -> None:
        """Takes one for which there is room."""
        self._of[finding.about.namespace] += 1
        self.found.append(finding)

    def findings(self) -> Iterator[Finding]:
        """All that were taken, and one that counts the others."""
        yield from self.found
        if self.left_out:
            severity = max((one.severity for one in self.found), default=Severity.WARNING)
            yield Finding(
                severity,
                self.check,
                About("Cluster", "all"),
                f"{self.left_out} more like these are not shown",
                "correct those that are shown, then run it again",
            )


def highest(findings: Iterable[Finding]) -> Severity:
    """The severity of the worst; INFO without any."""
    return max((one.severity for one in findings), default=Severity.INFO)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Errors, warnings, then the rest; otherwise in the order of the checks."""
    return sorted(findings, key=lambda one: -one.severity)


def text_lines(findings: Sequence[Finding], *, all_of_them: bool = True) -> Iterator[str]:
    """Two lines a finding, and one that counts them. Without `all_of_them` no INFO."""
    shown = [one for one in findings if all_of_them or one.severity > Severity.INFO]
    for one in worst_first(shown):
        yield f"{one.severity.name:<7} {clean(str(one.about))}: {clean(one.problem)}"
        if one.action:
            yield f"        do: {clean(one.action)}"
    counts = Counter(one.severity for one in findings)
    yield (
        f"{counts[Severity.ERROR]} errors, {counts[Severity.WARNING]} warnings,"
        f" {counts[Severity.INFO]} notes"
    )


def json_report(findings: Sequence[Finding], version: str) -> bytes:
    """All findings, worst first, with the highest severity."""
    report = {
        "version": version,
        "severity": highest(findings).name.lower(),
        "findings": [one.as_json() for one in worst_first(findings)],
    }
    return msgspec.json.format(msgspec.json.encode(report), indent=2)
