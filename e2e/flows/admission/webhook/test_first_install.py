"""First installation: the webhook becomes ready by itself, and the first apply works."""

from pathlib import Path

import pytest

from e2e.flows.admission.webhook.conftest import NAMESPACE
from e2e.flows.admission.webhook.load import GROUP, pod_group
from e2e.flows.admission.webhook.replicas import Replicas
from e2e.harness.support.rest import APPLY_PATCH, Rest


@pytest.mark.long
async def test_the_first_apply_after_ready_succeeds_every_time(
    admin: Path, api: Rest, long: bool, way: tuple[int, bool]
) -> None:
    count, by_service = way
    for attempt in range(5 if long else 2):
        async with Replicas(admin, count=count, by_service=by_service) as replicas:
            await replicas.start()
            answers = [
                await api.patch(
                    f"{GROUP}/{version}/namespaces/{NAMESPACE}/podgroups/first-{version}",
                    pod_group(f"first-{version}", version),
                    APPLY_PATCH,
                    params={"fieldManager": "kubectl"},
                )
                for version in ("v1alpha3", "v1alpha2")
            ]

            for answer in answers:
                made = answer.expect(201)
                assert made["metadata"]["finalizers"], (attempt, replicas.log())
