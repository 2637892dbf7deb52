"""The rules about nodes: capacity over time, ports, attached volumes, selectors, taints."""

from collections.abc import Iterable, Iterator

from tests.scheduler.crossings.cluster import Entry, keeps_out, load
from tests.scheduler.crossings.placed import Placed


class NodeRules(Placed):
    """The violations of pods' nodes."""

    def capacity(self) -> Iterator[str]:
        others = self._reserved()
        for name in sorted({pod["node"] for pod in self.new}):
            node = self.cluster.nodes[name]
            added = [it for it in self.new if it["node"] == name]
            here = [it for it in (*self.all, *others) if it["node"] == name]
            for resource, most in (
                ("cpu", node["cpu"]),
                ("memory", node.get("memory") or 64),
                ("extra", node.get("extra", 0)),
                ("pods", node.get("pods") or 110),
            ):
                used = load(
                    (1 if resource == "pods" else it.get(resource, 0), self.cluster.stage(it))
                    for it in here
                )
                asked = any(it.get(resource) or resource == "pods" for it in added)
                if asked and used > most:
                    yield f"{name}: {used} of {most} {resource}"
            for port in {it["port"] for it in here if it.get("port")}:
                used = load((1, self.cluster.stage(it)) for it in here if it.get("port") == port)
                if used > 1 and any(it.get("port") == port for it in added):
                    yield f"{name}: port {port} of {used} pods"
            here = [it for it in self.all if it["node"] == name]
            volumes = {*self._attached(here)}
            if {*self._attached(added)} and len(volumes) > node.get("attach", 99):
                yield f"{name}: {len(volumes)} volumes are attached of {node['attach']}"

    def _attached(self, pods: Iterable[Entry]) -> Iterator[str]:
        """Yield the volumes that the driver attaches; an unselected one may be of any driver."""
        for name in (it for pod in pods for it in pod.get("volumes", ())):
            if self.cluster.pvcs.get(name, {}).get("kind") != "hand":
                yield name

    def _reserved(self) -> list[Entry]:
        """Return the nominations for others, which the root must respect."""
        own = (self.decision["kind"], self.decision["root"])
        if not self.decision["root"]:
            return []
        priority = self.cluster.priority(self.decision)
        return [
            pod
            for root, (of, pods) in self.cluster.reserved.items()
            if root != own and of >= priority
            for pod in pods
            if not self.cluster.pods.get(pod["name"], {}).get("node")
            and pod["name"] not in self.gone
        ]

    def filters(self, pod: Entry) -> Iterator[str]:
        node = self.cluster.nodes[pod["node"]]
        if pod.get("rack") and node.get("rack") != pod["rack"]:
            yield f"{pod['name']} is on {node['name']}, which its node selector excludes"
        if keeps_out(node, pod):
            yield f"{pod['name']} does not tolerate the taint of {node['name']}"
        if node.get("cordoned"):
            yield f"{pod['name']} is on {node['name']}, which is cordoned"
