"""The plugin of docs/design/first-plugin.md filters, scores and says why."""

import re
from typing import Any

import numpy as np

from scheduler.core.framework.framework import Framework
from scheduler.core.pods.pod_selectors import PodMatches
from scheduler.core.search.reasons import reasons
from scheduler.core.values.model import NodeInfo, Requirements
from tests.scheduler.state_builder import StateBuilder
from tests.structure.graph import ROOT


def test_the_plugin_of_the_page_filters_and_scores() -> None:
    page = (ROOT / "docs" / "design" / "first-plugin.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    made: dict[str, Any] = {}
    exec(source, made)
    state = StateBuilder().state
    for name, label in (("a", made["LEAVING"]), ("b", made["QUIET"]), ("c", "other")):
        offers = {"cpu": 2000, "pods": 110}
        state.set_node(NodeInfo(name, offers, labels={label: "true"}))
    more = [made["LeavingNodes"](state.nodes)]
    framework = Framework(state.nodes, state.selectors, state.framework.plugins, more)
    assert framework.reach == state.framework.reach
    shape = framework.shape(0, Requirements(requests=(("cpu", 1000),)), PodMatches())

    rows = np.array([state.nodes.row_of[name] for name in "abc"])
    assert framework.slots(shape)[rows].tolist() == [0, 2, 2]
    assert dict(reasons(framework, shape))["node(s) were leaving"] == 1
    preference = framework.preference(shape, rows)
    assert preference is not None
    assert preference.tolist() == [0, 1000, 0]
