"""Results as a table and as JUnit XML."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from conformance.runner import Result

_COLUMNS = "{:8} {:28} {:>5}  {}"


def total(results: Sequence[Result]) -> str:
    """Return the numbers of scenarios by outcome."""
    passed, skipped = (sum(it.outcome == each for it in results) for each in ("passed", "skipped"))
    failed = len(results) - passed - skipped
    return f"{passed} passed, {failed} failed, {skipped} not supported"


def line(result: Result) -> str:
    """Return the line of one scenario, with its findings."""
    scenario = result.scenario
    seconds = f"{result.seconds:.0f} s"
    head = _COLUMNS.format(result.outcome, scenario.name, seconds, result.note or scenario.title)
    return "\n".join([head, *(f"          - {finding.line()}" for finding in result.findings)])


def junit(results: Sequence[Result], suite: str) -> str:
    """Return the results as JUnit XML, which CI systems show."""
    bad = {kind: sum(it.outcome == kind for it in results) for kind in ("failed", "error")}
    root = ET.Element(
        "testsuite",
        name=suite,
        tests=str(len(results)),
        failures=str(bad["failed"]),
        errors=str(bad["error"]),
        skipped=str(sum(it.outcome == "skipped" for it in results)),
        time=f"{sum(it.seconds for it in results):.1f}",
    )
    for result in results:
        case = ET.SubElement(
            root,
            "testcase",
            classname=suite,
            name=result.scenario.name,
            time=f"{result.seconds:.1f}",
        )
        _explain(case, result)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _explain(case: ET.Element, result: Result) -> None:
    """Add why a scenario did not pass, and what had to happen."""
    text = "\n".join([*(each.line() for each in result.findings), result.scenario.outcome])
    match result.outcome:
        case "skipped":
            ET.SubElement(case, "skipped", message=result.note)
        case "error":
            ET.SubElement(case, "error", message=result.note).text = text
        case "failed":
            ET.SubElement(case, "failure", message=result.findings[0].line()).text = text
