"""The rules of the smaller built-in kinds."""

import base64
import re

from localcluster.base.errors import Cause
from localcluster.base.meta import invalid_value, required
from localcluster.base.strategy import Generational, Object, Strategy
from localcluster.builtin.pods.pods import canonicalise, default_pod_spec

KEY_PROBLEM = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
HIGHEST_USER_PRIORITY = 1_000_000_000


def _immutable(field: str, value: object) -> Cause:
    return invalid_value(field, value, "field is immutable")


class Nodes(Strategy):
    """The rules of nodes."""

    def default(self, obj: Object) -> None:
        """Set allocatable to the capacity unless given."""
        status = obj.setdefault("status", {})
        obj.setdefault("spec", {})
        canonicalise(status.get("capacity"))
        canonicalise(status.get("allocatable"))
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])


class Namespaces(Strategy):
    """The rules of namespaces."""

    returns_deleted = True

    def default(self, obj: Object) -> None:
        """Set the label with the namespace's name."""
        meta = obj["metadata"]
        if meta.get("name"):
            meta.setdefault("labels", {})["kubernetes.io/metadata.name"] = meta["name"]

    def prepare_create(self, obj: Object) -> None:
        """Set the phase to Active and add the finalizer of the namespace controller."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, new: Object, old: Object) -> None:
        """Restore the spec: finalizers change only through the finalize subresource."""
        new["spec"] = old["spec"]


class PriorityClasses(Strategy):
    """The rules of priority classes."""

    generation = True

    def default(self, obj: Object) -> None:
        """Set the default policy, and the value, which JSON omits if zero."""
        obj.setdefault("value", 0)
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if a user's class has a system value, or if the policy is unknown."""
        name, causes = obj["metadata"].get("name", ""), []
        policies = ("Never", "PreemptLowerPriority")
        if obj["preemptionPolicy"] not in policies:
            text = 'Unsupported value: "{}": supported values: "Never", "PreemptLowerPriority"'
            text = text.format(obj["preemptionPolicy"])
            causes.append(Cause("preemptionPolicy", "FieldValueNotSupported", text))
        if name.startswith("system-"):
            if name not in {"system-cluster-critical", "system-node-critical"}:
                text = (
                    "Forbidden: priority class names with 'system-' prefix are reserved for "
                    f"system use only. error: {name} is not a known system priority class"
                )
                causes.append(Cause("metadata.name", "FieldValueForbidden", text))
        elif obj["value"] > HIGHEST_USER_PRIORITY:
            text = (
                "Forbidden: maximum allowed value of a user defined priority is "
                f"{HIGHEST_USER_PRIORITY}"
            )
            causes.append(Cause("value", "FieldValueForbidden", text))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if value or policy changed."""
        causes = []
        if new["value"] != old["value"]:
            text = "Forbidden: may not be changed in an update."
            causes.append(Cause("value", "FieldValueForbidden", text))
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            causes.append(_immutable("preemptionPolicy", new["preemptionPolicy"]))
        return causes


class PodDisruptionBudgets(Generational):
    """The rules of PodDisruptionBudgets."""

    unconditional_update = False

    def prepare_create(self, obj: Object) -> None:
        """Allow no disruption until the controller has counted the pods."""
        obj["status"] = {
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        }

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if both bounds are set."""
        spec = obj.get("spec") or {}
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            text = "minAvailable and maxUnavailable cannot be both set"
            return [Cause("spec", "FieldValueInvalid", f"Invalid value: {text}")]
        return []


class Leases(Strategy):
    """The rules of leases."""

    unconditional_update = False
    create_on_update = True

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if a duration is not positive or transitions are negative."""
        spec, causes = obj.get("spec") or {}, []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            causes.append(
                invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0")
            )
        if transitions is not None and transitions < 0:
            text = "must be greater than or equal to 0"
            causes.append(invalid_value("spec.leaseTransitions", transitions, text))
        return causes


class Secrets(Strategy):
    """The rules of secrets."""

    def default(self, obj: Object) -> None:
        """Set the type Opaque; move stringData to data."""
        obj.setdefault("type", "Opaque")
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error for each key that is not a valid file name."""
        return data_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if the type changed, or the data of an immutable secret."""
        causes = []
        if new.get("type") != old.get("type"):
            causes.append(_immutable("type", new.get("type")))
        if old.get("immutable") and new.get("data") != old.get("data"):
            text = "Forbidden: field is immutable when `immutable` is set"
            causes.append(Cause("data", "FieldValueForbidden", text))
        return causes


_KEY = re.compile(r"[-._a-zA-Z0-9]+\Z")


def data_causes(obj: Object) -> list[Cause]:
    """Return the errors of the keys of a ConfigMap or a secret."""
    return [
        invalid_value(f"{field}[{key}]", key, KEY_PROBLEM)
        for field in ("data", "binaryData")
        for key in obj.get(field) or ()
        if not _KEY.match(key) or len(key) > 253
    ]


class ConfigMaps(Strategy):
    """The rules of ConfigMaps."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error for each key that is not a valid file name."""
        return data_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if an immutable ConfigMap changed."""
        if old.get("immutable") and new.get("data") != old.get("data"):
            text = "Forbidden: field is immutable when `immutable` is set"
            return [Cause("data", "FieldValueForbidden", text)]
        return []


class Services(Strategy):
    """The rules of Services; traffic is not routed to them."""

    returns_deleted = True

    def default(self, obj: Object) -> None:
        """Set the defaults of the spec."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def prepare_create(self, obj: Object) -> None:
        """Set a status without load balancer."""
        obj["status"] = {"loadBalancer": {}}

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if ports are missing, unless the Service is headless."""
        spec = obj["spec"]
        needs_ports = spec.get("clusterIP") != "None" and spec["type"] != "ExternalName"
        return [required("spec.ports")] if needs_ports and not spec.get("ports") else []


class WebhookConfigurations(Strategy):
    """The defaults of both kinds of webhook configuration."""

    generation = True
    unconditional_update = False

    def default(self, obj: Object) -> None:
        """Set the defaults of each webhook."""
        mutating = obj.get("kind") == "MutatingWebhookConfiguration"
        for hook in obj.get("webhooks") or ():
            hook.setdefault("failurePolicy", "Fail")
            hook.setdefault("matchPolicy", "Equivalent")
            hook.setdefault("namespaceSelector", {})
            hook.setdefault("objectSelector", {})
            hook.setdefault("timeoutSeconds", 10)
            if mutating:
                hook.setdefault("reinvocationPolicy", "Never")
            for rule in hook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service:
                service.setdefault("port", 443)


class RoleBindings(Strategy):
    """The rules of both kinds of role binding."""

    def default(self, obj: Object) -> None:
        """Set the API group of the role, users and groups."""
        rbac = "rbac.authorization.k8s.io"
        obj.setdefault("roleRef", {}).setdefault("apiGroup", rbac)
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in {"User", "Group"}:
                subject.setdefault("apiGroup", rbac)

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if the binding names no role."""
        ref = obj["roleRef"]
        causes = [] if ref.get("name") else [required("roleRef.name")]
        if ref.get("kind") not in {"Role", "ClusterRole"}:
            text = 'Unsupported value: "{}": supported values: "ClusterRole", "Role"'
            text = text.format(ref.get("kind") or "")
            causes.insert(0, Cause("roleRef.kind", "FieldValueNotSupported", text))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if the role changed."""
        if new["roleRef"] == old["roleRef"]:
            return []
        return [invalid_value("roleRef", new["roleRef"], "cannot change roleRef")]


class Workloads(Generational):
    """Deployments and similar kinds: stored and scaled, but no controller runs them."""

    def default(self, obj: Object) -> None:
        """Set one replica and the defaults of the template."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        template = spec.get("template")
        if isinstance(template, dict):
            default_pod_spec(template.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        """Reset the status."""
        obj["status"] = {"replicas": 0}

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if the selector changed."""
        after, before = new["spec"].get("selector"), old["spec"].get("selector")
        return [] if after == before else [_immutable("spec.selector", after)]
