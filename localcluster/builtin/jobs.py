"""Jobs and CronJobs: defaults, the selector generated from the UID, immutable fields."""

from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.meta import invalid_value, required
from localcluster.base.strategy import Generational, Object
from localcluster.builtin.pods.pods import default_pod_spec, pod_spec_causes

UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")
COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds")
FIXED = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
MAX_INT32 = 2**31 - 1


def default_job_spec(spec: Object) -> None:
    """Set the defaults of a Job's or a Job template's spec."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    per_index = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", MAX_INT32 if per_index else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", policy)
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def job_spec_causes(spec: Object, at: str) -> list[Cause]:
    """Return the validation errors of the spec of a Job."""
    text = "must be greater than or equal to 0"
    causes = [
        invalid_value(f"{at}.{name}", spec[name], text)
        for name in COUNTS
        if isinstance(spec.get(name), int) and spec[name] < 0
    ]
    mode = spec.get("completionMode")
    if mode not in {"NonIndexed", "Indexed"}:
        text = f'Unsupported value: "{mode}": supported values: "Indexed", "NonIndexed"'
        causes.append(Cause(f"{at}.completionMode", "FieldValueNotSupported", text))
    if mode == "Indexed" and spec.get("completions") is None:
        text = "when completion mode is Indexed"
        causes.append(required(f"{at}.completions", text))
    template = spec["template"]["spec"]
    causes += pod_spec_causes(template, f"{at}.template.spec")
    if template.get("restartPolicy") == "Always":
        where = f"{at}.template.spec.restartPolicy"
        causes.append(required(where, 'valid values: "OnFailure", "Never"'))
    return causes


class Jobs(Generational):
    """The rules of Jobs."""

    default_propagation = "Orphan"

    def default(self, obj: Object) -> None:
        """Set the defaults of the spec; copy the template's labels if the Job has none."""
        spec = obj.setdefault("spec", {})
        default_job_spec(spec)
        labels = spec["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = labels  # a shared map, as upstream: gets UID labels too

    def prepare_create(self, obj: Object) -> None:
        """Reset the status; generate the selector and its labels from the UID."""
        obj["status"] = {}
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        labels = spec["template"]["metadata"].setdefault("labels", {})
        labels.update(dict.fromkeys(UID_LABELS, meta["uid"]))
        labels.update(dict.fromkeys(NAME_LABELS, meta["name"]))
        selector = spec.setdefault("selector", {}).setdefault("matchLabels", {})
        selector[UID_LABELS[0]] = meta["uid"]

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors of the spec, and one if the selector does not match the template."""
        spec = obj["spec"]
        causes = job_spec_causes(spec, "spec")
        wanted = (spec.get("selector") or {}).get("matchLabels") or {}
        labels = spec["template"]["metadata"].get("labels") or {}
        if not wanted and not (spec.get("selector") or {}).get("matchExpressions"):
            causes.append(required("spec.selector"))
        elif any(labels.get(key) != value for key, value in wanted.items()):
            where, text = (
                "spec.template.metadata.labels",
                "`selector` does not match template `labels`",
            )
            causes.append(invalid_value(where, labels, text))
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return the errors of changes to template, selector, completions or modes.

        A few exceptions are allowed.
        """
        after, before = new["spec"], old["spec"]
        causes = []
        if after.get("selector") != before.get("selector"):
            causes.append(_fixed("spec.selector", after.get("selector")))
        if _template(after["template"], before, old) != _template(before["template"], before, old):
            causes.append(_fixed("spec.template", "core.PodTemplateSpec{...}"))
        causes += [
            _fixed(f"spec.{name}", after.get(name))
            for name in FIXED
            if after.get(name) != before.get(name)
        ]
        if after.get("completions") != before.get("completions") and not _elastic(after):
            causes.append(_fixed("spec.completions", after.get("completions")))
        return causes


def _elastic(spec: Object) -> bool:
    indexed = spec.get("completionMode") == "Indexed"
    return indexed and spec.get("completions") == spec.get("parallelism")


def _fixed(field: str, value: object) -> Cause:
    return invalid_value(field, value, "field is immutable")


def _template(template: Object, before: Object, old: Object) -> Any:
    """Return the immutable part of a template.

    It is smaller if the Job is suspended and never started.
    """
    status = old.get("status") or {}
    if not before.get("suspend") or status.get("startTime"):
        return template
    spec = dict(template["spec"])
    for name in ("nodeSelector", "tolerations", "affinity", "schedulingGates"):
        spec.pop(name, None)
    meta = dict(template.get("metadata") or {})
    for name in ("labels", "annotations"):
        meta.pop(name, None)
    return {**template, "metadata": meta, "spec": spec}


class CronJobs(Generational):
    """The rules of CronJobs; no controller runs them."""

    def default(self, obj: Object) -> None:
        """Set the defaults of the spec."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.setdefault("jobTemplate", {})
        template.setdefault("metadata", {})
        default_pod_spec(
            template.setdefault("spec", {}).setdefault("template", {}).setdefault("spec", {})
        )

    def prepare_create(self, obj: Object) -> None:
        """Reset the status."""
        obj["status"] = {}

    def validate(self, obj: Object) -> list[Cause]:
        """Return an error if the schedule is missing."""
        return [] if obj["spec"].get("schedule") else [required("spec.schedule")]
