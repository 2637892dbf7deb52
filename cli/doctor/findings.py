"""Findings as values, their output, and the exit code for them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from analysis.explain.plain_text import clean
from api.reading import dig, text
from api.wording import count
from kube.base.errors import Forbidden, KubeError, NotFound, TooLarge, Unreachable

_IN_A_NAMESPACE: Final = 5
"""Findings of one kind and namespace. Further ones are counted."""

_IN_ALL: Final = 50
"""Findings of one kind. Further ones are counted."""


class Severity(enum.IntEnum):
    """Severity of a finding: worth knowing, a problem soon or for some users, a failure now."""

    INFO = 0
    WARNING = 1
    ERROR = 2


EXIT_CODES: Final = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 3}
"""Exit code by the highest severity. 2 is for bad arguments and a cluster that cannot be
reached."""


@dataclass(frozen=True, slots=True)
class About:
    """The object that a finding is about. A cluster-scoped one has no namespace."""

    kind: str
    name: str
    namespace: str = ""

    @classmethod
    def of(cls, kind: str, obj: Any) -> Self:
        """Return the coordinates of an object, as raw JSON of any structure."""
        return cls(kind, *(text(dig(obj, "metadata", key)) for key in ("name", "namespace")))

    def __str__(self) -> str:
        """Return `Kind namespace/name`."""
        return f"{self.kind} {'/'.join(filter(None, (self.namespace, self.name)))}"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on one object: the problem, and the action that solves it."""

    severity: Severity
    check: str
    about: About
    problem: str
    action: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding for machines. Its texts are clean: they may end up on a terminal."""
        about = {
            "kind": self.about.kind,
            "namespace": self.about.namespace,
            "name": self.about.name,
        }
        return {
            "severity": self.severity.name.lower(),
            "check": self.check,
            "object": {key: clean(value) for key, value in about.items()},
            "problem": clean(self.problem),
            "action": clean(self.action),
        }


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one object, which creates its findings."""

    name: str
    about: About

    def error(self, problem: str, action: str) -> Finding:
        """Return the finding for a failure."""
        return Finding(Severity.ERROR, self.name, self.about, problem, action)

    def warning(self, problem: str, action: str) -> Finding:
        """Return the finding for a problem that comes soon, or that some users have."""
        return Finding(Severity.WARNING, self.name, self.about, problem, action)

    def info(self, problem: str, action: str = "") -> Finding:
        """Return the finding for a fact worth knowing."""
        return Finding(Severity.INFO, self.name, self.about, problem, action)


def check_failed(check: Check, problem: KubeError) -> Finding:
    """Return the finding for a check that could not run."""
    text, action = str(problem), "run muster doctor again when the API server answers this request"
    match problem:
        case Forbidden():
            action = "run muster doctor as a cluster administrator, or grant this account the right"
        case NotFound():
            action = "install the missing kind, or correct the option that names this place"
        case TooLarge():
            action = "find out who creates objects of this size"
        case Unreachable():
            action = "check that the API server responds, then run muster doctor again"
    return check.warning(f"this check could not run: {text}", action)


@dataclass(slots=True)
class Limited:
    """Findings about objects of tenants, limited per check and namespace; the rest is counted.

    The limit per namespace leaves capacity for the findings of other namespaces.
    """

    check: str
    found: list[Finding] = field(default_factory=list)
    left_out: int = 0
    _of: Counter[str] = field(default_factory=Counter)

    def full(self, namespace: str) -> bool:
        """Return true if one more finding in the namespace is beyond the limits."""
        return self._of[namespace] >= _IN_A_NAMESPACE or len(self.found) >= _IN_ALL

    def add(self, finding: Finding) -> None:
        """Add a finding, or count it as left out."""
        namespace = finding.about.namespace
        if self.full(namespace):
            self.left_out += 1
            return
        self._of[namespace] += 1
        self.found.append(finding)

    def warn(self, about: About, problem: str, action: str) -> None:
        """Add a warning of this check."""
        self.add(Check(self.check, about).warning(problem, action))

    def findings(self) -> Iterator[Finding]:
        """Yield all findings that were added, and one that counts the others."""
        yield from self.found
        if self.left_out:
            severity = max((one.severity for one in self.found), default=Severity.WARNING)
            yield Finding(
                severity,
                self.check,
                About("Cluster", "all"),
                f"{self.left_out} more of this kind"
                f" {'is' if self.left_out == 1 else 'are'} not shown",
                "correct those that are shown, then run muster doctor again",
            )


def highest(findings: Iterable[Finding]) -> Severity:
    """Return the highest severity; INFO without findings."""
    return max((one.severity for one in findings), default=Severity.INFO)


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return errors, warnings, then the rest; each in the order of the checks."""
    return sorted(findings, key=lambda one: -one.severity)


def text_lines(findings: Sequence[Finding], *, all_of_them: bool = True) -> Iterator[str]:
    """Yield two lines for each finding, and a line of counts. Without `all_of_them` no INFO."""
    shown = [one for one in findings if all_of_them or one.severity > Severity.INFO]
    for one in worst_first(shown):
        yield f"{one.severity.name:<7} {clean(str(one.about))}: {clean(one.problem)}"
        if one.action:
            yield f"        do: {clean(one.action)}"
    counts = Counter(one.severity for one in findings)
    nouns = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
    yield ", ".join(count(counts[severity], noun) for severity, noun in nouns.items())


def report(findings: Sequence[Finding], version: str) -> dict[str, Any]:
    """Return all findings for machines, worst first, with the highest severity."""
    return {
        "version": version,
        "severity": highest(findings).name.lower(),
        "findings": [one.as_json() for one in worst_first(findings)],
    }


def rows(findings: Iterable[Finding], *, wide: bool) -> Iterator[list[str]]:
    """Yield the columns of a table, then a row for each finding, worst first."""
    yield ["SEVERITY", *(["CHECK"] if wide else []), "OBJECT", "PROBLEM", "ACTION"]
    for one in worst_first(findings):
        check = [one.check] if wide else []
        yield [one.severity.name, *check, str(one.about), one.problem, one.action]
