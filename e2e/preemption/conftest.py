"""A priority class of the test's own, which the webhook knows before the test begins."""

from collections.abc import AsyncIterator

import pytest

from e2e.suite.objects import POD_GROUPS, Json, pod_group
from e2e.suite.stage import Stage
from kube.errors import Forbidden
from kube.resources import PRIORITY_CLASSES


@pytest.fixture
async def important(stage: Stage) -> AsyncIterator[str]:
    """The name of a class above the default."""
    name = f"{stage.name}-important"
    await stage.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1000})
    asking: Json = pod_group("asking", 1)
    asking["spec"]["priorityClassName"] = name

    async def known() -> bool:
        try:
            await stage.create(POD_GROUPS, asking)
        except Forbidden:
            return False
        return True

    await stage.until("the class to be known", known)
    await stage.delete(POD_GROUPS, "asking")
    yield name
    await stage.client.delete(PRIORITY_CLASSES, name)
