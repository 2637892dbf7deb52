"""Load generator: it creates groups at a steady rate, and records every failure."""

import asyncio
import itertools
from dataclasses import dataclass, field

from e2e.flows.admission.webhook.conftest import NAMESPACE
from e2e.harness.support.rest import Object, Rest

GROUP = "/apis/scheduling.muster.dev"


def pod_group(name: str, version: str = "v1alpha3") -> Object:
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    if version == "v1alpha2":  # its policy comes only from its template
        spec = {"workloadRef": {"name": "w"}, "podGroupTemplateName": "t"}
    return {
        "apiVersion": f"scheduling.muster.dev/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


AT_ONCE = 64
"""Maximum concurrent requests; more would only queue on a busy machine."""


@dataclass
class Load:
    """Up to `rate` creations per second until `stop`; each tenth in an old version, for conversion.

    A slower machine gets fewer: at most `AT_ONCE` requests are pending.
    """

    rest: Rest
    rate: float
    made: int = 0
    failures: list[str] = field(default_factory=list)
    _stopped: bool = False

    def stop(self) -> None:
        self._stopped = True

    async def run(self) -> None:
        """Send requests; a slow response does not delay later requests until too many are slow."""
        free = asyncio.Semaphore(AT_ONCE)

        async def create(number: int) -> None:
            try:
                await self._create(number)
            finally:
                free.release()

        async with asyncio.TaskGroup() as group:
            for number in itertools.count():
                pause = asyncio.create_task(asyncio.sleep(1 / self.rate))
                await free.acquire()
                if self._stopped:
                    break
                group.create_task(create(number))
                await pause

    async def _create(self, number: int) -> None:
        version = "v1alpha2" if number % 10 == 9 else "v1alpha3"
        path = f"{GROUP}/{version}/namespaces/{NAMESPACE}/podgroups"
        try:
            answer = await self.rest.post(path, pod_group(f"load-{number}", version))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a failed request
            self.failures.append(f"{number}: {error!r}")
            return
        if answer.status == 201:
            self.made += 1
        else:
            self.failures.append(f"{number} {version}: {answer.status} {answer.text[:400]}")
