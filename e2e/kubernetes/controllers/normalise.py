"""Normalizes recorded objects: random names, UIDs and times, which differ between runs."""

import re
from typing import Any

Object = dict[str, Any]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_ADDRESS = re.compile(r"10\.\d+\.\d+\.\d+")
_DROPPED = ("managedFields", "resourceVersion", "selfLink")


class Normaliser:
    """Normalizer that records names and UIDs in their order.

    A generated name `work-x8k2p` becomes `work-~1`, the first generated from `work-`; a UID becomes
    `<uid of Job/work>`; times and pod addresses become `<time>` and `<ip>`.
    """

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def learn(self, obj: Object) -> None:
        """Record a new object's name and UID."""
        meta = obj["metadata"]
        name, base = meta["name"], meta.get("generateName")
        if base and name not in self._words:
            self._counts[base] = self._counts.get(base, 0) + 1
            self._words[name] = f"{base}~{self._counts[base]}"
        self._words.setdefault(meta["uid"], f"<uid of {obj['kind']}/{self.text(name)}>")

    def text(self, value: str) -> str:
        for word, stable in self._words.items():
            value = value.replace(word, stable)
        return _ADDRESS.sub("<ip>", _TIME.sub("<time>", value))

    def value(self, value: Any) -> Any:
        """Return the value with everything random replaced or dropped."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {
                self.text(key): self.value(item)
                for key, item in value.items()
                if key not in _DROPPED
            }
        return value


class Interner:
    """Interner that gives equal values one identity, so that YAML writes each once."""

    def __init__(self) -> None:
        self._known: dict[str, Any] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            value = {key: self.value(item) for key, item in value.items()}
        elif isinstance(value, list):
            value = [self.value(item) for item in value]
        else:
            return value
        size = len(repr(value))
        return self._known.setdefault(repr(value), value) if size > 120 else value
