"""The report of Kubernetes' specs."""

from pathlib import Path

from e2e.kubernetes.upstream.specs import Spec, read

REPORT = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4">
  <testsuite name="Kubernetes e2e suite" tests="4">
    <testcase name="[SynchronizedBeforeSuite]" status="passed" time="1"></testcase>
    <testcase name="[It] [sig-scheduling] LimitRange sets defaults [Conformance] [sig-scheduling]"
              status="passed" time="2"></testcase>
    <testcase name="[It] [sig-scheduling] Preemption [Serial] evicts [Feature:X] [sig-scheduling]"
              status="failed" time="3"><failure message=" pods not found&#xA;" type="failed"/>
    </testcase>
    <testcase name="[It] [sig-scheduling] Storage needs disks [Serial] [sig-scheduling]"
              status="skipped" time="0"><skipped message="skipped - no disks"/></testcase>
  </testsuite>
</testsuites>
"""


def test_a_report_has_the_specs_by_their_names_with_the_reasons(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)

    assert read(tmp_path / "report.xml") == [
        Spec("LimitRange sets defaults", "passed", ""),
        Spec("Preemption evicts", "failed", "pods not found"),
        Spec("Storage needs disks", "skipped", "skipped - no disks"),
    ]
