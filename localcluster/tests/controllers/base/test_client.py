"""The controllers' view of the cluster: complete, current, and tolerant of unusual objects."""

from typing import Any

from structlog.testing import capture_logs

from localcluster.base.errors import StatusError
from localcluster.controllers.base.api_protocol import PODS
from localcluster.tests.controllers.cluster import simulated_cluster

Obj = dict[str, Any]


def job(name: str) -> Obj:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "a:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


async def test_a_broken_watch_is_begun_anew() -> None:
    async with simulated_cluster() as cluster:
        for stream in list(cluster.api.watches):
            stream.fail(StatusError(410, "Expired", "too old"))

        await cluster.create(job("work"))
        await cluster.settle()

        assert len(cluster.list("Pod")) == 1


async def test_what_was_missed_by_a_broken_watch_is_found() -> None:
    async with simulated_cluster() as cluster:
        for stream in list(cluster.api.watches):
            stream.close()
        await cluster.create(job("work"))

        await cluster.settle()

        assert len(cluster.list("Pod")) == 1


async def test_a_change_is_made_upon_the_latest_state() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client()
        node: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
        spec = {"containers": [{"name": "m", "image": "a:1"}]}
        pod = await cluster.create({**node, "spec": spec})
        rivals = ["first", "second"]

        def edit(present: Obj) -> Obj:
            meta = present["metadata"]
            return {**present, "metadata": {**meta, "labels": {**meta.get("labels", {}), "x": "y"}}}

        class Rival:
            """A writer that interferes between our read and our write."""

            async def mutate(self, request: Any) -> None:
                if rivals and request.user.name.endswith("controller-manager"):
                    labels = {"labels": {rivals.pop(): "was-here"}}
                    await cluster.patch("Pod", "a", {"metadata": labels})

            async def validate(self, request: Any) -> None:
                return None

        cluster.api.admission.append(Rival())
        changed = await client.change(PODS, ("default", "a"), pod["metadata"]["uid"], edit)

        assert changed is not None
        assert changed["metadata"]["labels"] == {
            "first": "was-here",
            "second": "was-here",
            "x": "y",
        }


async def test_an_object_of_the_same_name_is_not_changed() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client()
        spec = {"containers": [{"name": "m", "image": "a:1"}]}
        meta = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
        await cluster.create({**meta, "spec": spec})

        assert await client.change(PODS, ("default", "a"), "another", lambda pod: pod) is None


async def test_deleting_what_is_gone_is_no_error() -> None:
    async with simulated_cluster() as cluster:
        client = cluster.client()
        spec = {"containers": [{"name": "m", "image": "a:1"}]}
        meta = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
        pod = await cluster.create({**meta, "spec": spec})

        await client.delete(PODS, pod)
        await client.delete(PODS, pod)


async def test_one_odd_object_does_not_stop_the_others() -> None:
    async with simulated_cluster() as cluster:
        await cluster.create(job("odd"))
        await cluster.settle()
        with capture_logs() as logs:
            labels = {"metadata": {"labels": {"jobset.sigs.k8s.io/restart-attempt": "many"}}}
            roles = {"replicatedJobs": [{"name": "a", "template": job("x")}]}
            await cluster.create(
                {
                    "apiVersion": "jobset.x-k8s.io/v1alpha2",
                    "kind": "JobSet",
                    "metadata": {"name": "set"},
                    "spec": roles,
                }
            )
            await cluster.settle()
            await cluster.patch("Job", "set-a-0", labels)
            await cluster.pass_time(1)
            await cluster.create(job("fine"))
            await cluster.pass_time(1)

        assert "reconcile failed, retrying" in {entry["event"] for entry in logs}
        assert cluster.get("Job", "fine")["status"]["active"] == 1
