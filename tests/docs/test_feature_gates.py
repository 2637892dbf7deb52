"""The page on feature gates lists exactly the existing ones."""

import re

from api.features import GATES
from tests.structure.graph import ROOT

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (on|off) \| (.*) \|$", re.MULTILINE)


def test_the_table_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "feature-gates.md").read_text("utf-8")

    assert _ROW.findall(page) == [
        (name.value, gate.stage.value, "on" if gate.default else "off", gate.summary)
        for name, gate in GATES.items()
    ]
