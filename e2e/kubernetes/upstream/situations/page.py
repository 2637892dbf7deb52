"""The table of the situations in docs/versions.md."""

from collections.abc import Iterator

from e2e.harness.controlplane.places import ROOT
from e2e.kubernetes.upstream.situations.model import Expect, Situation
from e2e.kubernetes.upstream.situations.subjects import SUBJECTS
from tools.marked_parts import replaced

PAGE = ROOT / "docs" / "versions.md"


def table() -> str:
    """Return the numbers of situations by subject, and those in which the schedulers differ."""
    lines = [
        "| subject | situations | Muster differs in |",
        "|---|---|---|",
        *(f"| {name} | {len(of)} | {sum(it.differs is not None for it in of) or ''} |"
          for name, of in SUBJECTS.items()),
    ]  # fmt: skip
    differing = [each for of in SUBJECTS.values() for each in of if each.differs is not None]
    if differing:
        lines += ["", "| situation | kube-scheduler | Muster | why |", "|---|---|---|---|"]
        lines += [_row(each) for each in differing]
    return "\n".join(lines) + "\n"


def written() -> str:
    """Return the page with this table."""
    return replaced(PAGE.read_text("utf-8"), {"situations": table()})


def write() -> None:
    PAGE.write_text(written(), "utf-8")


def _row(situation: Situation) -> str:
    assert situation.differs is not None
    ends = (situation.steps[-1], situation.differs.outcome)
    theirs, ours = ("; ".join(_words(end)) for end in ends if isinstance(end, Expect))
    return f"| {situation.name} | {theirs} | {ours} | {situation.differs.why} |"


def _words(end: Expect) -> Iterator[str]:
    for name, counts in end.pods.items():
        yield f"{name}: " + ", ".join(f"{count} {state}" for state, count in counts.items())
    for name, allowed in end.at.items():
        yield f"{name} on {allowed}"
