"""Where the binaries, their modules and a running control plane live. Other tools rely on it."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "controlplane"
BIN = CACHE / "bin"
GO = ROOT / ".cache" / "go"
MODULES = ROOT / "e2e" / "modules"
SOURCES = CACHE / "modules.json"
DURATIONS = CACHE / "durations.json"
KUBECONFIG = CACHE / "kubeconfig"
LOGS = CACHE / "logs"
PID = CACHE / "pid"
