"""The KWOK stages of a run: running nodes and pods, pods that finish on demand, and their end."""

from pathlib import Path
from typing import Any

import yaml

from e2e.harness.clusters.nodes import FINISH_ANNOTATION

PHASES = ("Succeeded", "Failed")

# Without pod-complete: it would complete every Job's pod at once.
_MODULE_STAGES = (
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
)


def arguments(module: Path, folder: Path) -> list[str]:
    """Return the `--config` arguments of kwok, and write our own stages.

    `module` is KWOK's source folder.
    """
    own = folder / "stages.yaml"
    own.write_text(yaml.safe_dump_all([*map(_finish, PHASES), _delete(), _delete_after_hook()]))
    files = [module / "kustomize" / "stage" / name for name in _MODULE_STAGES]
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"KWOK's module has no stage {', '.join(missing)}")
    return [f"--config={file}" for file in [*files, own]]


def _finish(phase: str) -> dict[str, Any]:
    """Return a stage that ends a pod in `phase` as soon as the pod has that annotation."""
    asked = f'.metadata.annotations["{FINISH_ANNOTATION}"]'
    return _stage(
        f"pod-finish-{phase.lower()}",
        {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
        {"key": ".status.phase", "operator": "In", "values": ["Running"]},
        {"key": asked, "operator": "In", "values": [phase]},
        next={"statusTemplate": _status(phase)},
    )


_TERMINATES = {"key": ".metadata.deletionTimestamp", "operator": "Exists"}
_HOOK = ".spec.containers[].lifecycle.preStop"


def _delete() -> dict[str, Any]:
    """Return a stage that ends a terminating pod at once."""
    return _stage(
        "pod-delete",
        _TERMINATES,
        {"key": _HOOK, "operator": "DoesNotExist"},
        next={"delete": True},
    )


def _delete_after_hook() -> dict[str, Any]:
    """Return a stage for pods whose preStop hook takes all of their grace period."""
    return _stage(
        "pod-delete-after-hook",
        _TERMINATES,
        {"key": _HOOK, "operator": "Exists"},
        delay={
            "durationMilliseconds": 0,
            "durationFrom": {"expressionFrom": _TERMINATES["key"]},
        },
        next={"delete": True},
    )


def _stage(name: str, *selects: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
            "selector": {"matchExpressions": list(selects)},
            **spec,
        },
    }


def _status(phase: str) -> str:
    code, reason = (0, "Completed") if phase == "Succeeded" else (1, "Error")
    return f"""\
{{{{ $now := Now }}}}
conditions:
- type: Ready
  status: "False"
  reason: {"PodCompleted" if code == 0 else "PodFailed"}
  lastTransitionTime: {{{{ $now | Quote }}}}
- type: ContainersReady
  status: "False"
  reason: {"PodCompleted" if code == 0 else "PodFailed"}
  lastTransitionTime: {{{{ $now | Quote }}}}
containerStatuses:
{{{{ range .spec.containers }}}}
- image: {{{{ .image | Quote }}}}
  name: {{{{ .name | Quote }}}}
  ready: false
  started: false
  restartCount: 0
  state:
    terminated:
      exitCode: {code}
      reason: {reason}
      finishedAt: {{{{ $now | Quote }}}}
      startedAt: {{{{ $now | Quote }}}}
{{{{ end }}}}
phase: {phase}
"""
