"""Compilation of selectors and their verdicts on devices, each pair evaluated once."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from scheduler.cel import kubernetes_functions, lists, operators, texts, time_functions
from scheduler.cel.errors import (
    CostExceededError,
    CostExhaustedError,
    CostlySelectorError,
    EvaluationError,
    SelectorError,
)
from scheduler.cel.evaluation import EvaluationFrame, VariableScope, build
from scheduler.cel.macros import build_macro
from scheduler.cel.parser import parse
from scheduler.cel.patterns import COMPILATION
from scheduler.cel.quantities import from_nano
from scheduler.cel.syntax import Node
from scheduler.cel.values import Domains, Value, type_name
from scheduler.cel.versions import parse_version
from scheduler.core.values.devices import Attribute, DeviceInfo

LONGEST: Final = 10 * 1024
"""Length of a selector in bytes, the API server's limit. A longer one does not compile."""

COST: Final = 100_000
"""Cost of evaluating one device, in kube-scheduler's units; beyond it the selector fails. Real
selectors cost some ten. The API server rejects those that may cost 1,000,000; one of these would
block all decisions for a second."""

_FUNCTIONS: Final = {
    **operators.FUNCTIONS,
    **texts.FUNCTIONS,
    **lists.FUNCTIONS,
    **kubernetes_functions.FUNCTIONS,
    **time_functions.FUNCTIONS,
}


class CompiledSelector:
    """A compiled selector."""

    __slots__ = ("_evaluate", "_slots", "text")

    def __init__(self, text: str, tree: Node) -> None:
        """Compile the tree. Raises SelectorError."""
        scope = VariableScope(_FUNCTIONS, build_macro)
        self.text = text
        self._evaluate = build(tree, scope)
        self._slots = scope.slots

    def evaluate(self, driver: str, device: DeviceInfo) -> bool:
        """Return the verdict on the device. Raises SelectorError where kube-scheduler fails."""
        return self.measure(driver, device)[0]

    def measure(self, driver: str, device: DeviceInfo, limit: int = COST) -> tuple[bool, int]:
        """Return the verdict on the device, and its cost. Raises SelectorError."""
        frame = EvaluationFrame(variable(driver, device), self._slots, limit)
        try:
            value = self._evaluate(frame)
            # Reads of variables and fields add cost without a check: the last are checked here.
            frame.charge(0)
        except EvaluationError as error:
            raise SelectorError(f"CEL runtime error: {error}") from None
        except CostExceededError:
            raise CostlySelectorError(
                f"CEL runtime error: evaluating one device costs more than {limit}, "
                "the most that Muster allows: simplify the expression"
            ) from None
        if not isinstance(value, bool):
            problem = f"CEL result of type {type_name(value)} could not be converted to bool"
            raise SelectorError(f"CEL runtime error: {problem}")
        return value, frame.cost


def compile_selector(text: str) -> CompiledSelector:
    """Compile the text. Raises SelectorError with the position and the problem."""
    try:
        if len(text.encode()) > LONGEST:
            raise SelectorError(f"the expression has more than {LONGEST} bytes")
        return CompiledSelector(text, parse(text))
    # A text from JSON may contain lone surrogates, which have no UTF-8.
    except (SelectorError, UnicodeEncodeError) as error:
        raise SelectorError(f"CEL compile error: {error}") from None


def variable(driver: str, device: DeviceInfo) -> dict[str, Value]:
    """Return the value of the variable `device`. Raises SelectorError for an invalid version."""
    attributes, capacity = Domains(), Domains()
    for name, attribute in device.attributes:
        domain, plain = _split(name, driver)
        attributes.setdefault(domain, {})[plain] = _value(name, attribute)
    for each in device.capacity:
        domain, plain = _split(each.name, driver)
        capacity.setdefault(domain, {})[plain] = from_nano(each.value)
    return {
        "driver": driver,
        "allowMultipleAllocations": device.shared,
        "attributes": attributes,
        "capacity": capacity,
    }


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, plain = name.partition("/")
    return (domain, plain) if slash else (driver, name)


def _value(name: str, attribute: Attribute) -> Value:
    if attribute.type != "version":
        return attribute.value
    try:
        return parse_version(str(attribute.value))
    except EvaluationError as error:
        raise SelectorError(f"attribute {name}: {error}") from None


class Selectors:
    """Compiled selectors and their verdicts: each selector evaluates equal devices once.

    The selectors used least recently are dropped first, with their verdicts. `allowance` is the
    cost that the decision of one root may still spend, None for no limit.
    """

    def __init__(self, verdicts: int = 65_536) -> None:
        """Keep at most so many verdicts."""
        self._most = verdicts
        self._known: OrderedDict[str, _CachedSelector] = OrderedDict()
        self.length = 0
        self._verdicts = 0
        self.allowance: int | None = None
        self.evaluations = 0
        self.errors = 0
        self.cost = 0

    def __len__(self) -> int:
        """Return the number of verdicts."""
        return self._verdicts

    def evaluate(self, text: str, driver: str, device: DeviceInfo) -> bool | str:
        """Return the verdict on the device, or the text of the error.

        Raises PostponedError if the verdict is unknown and the allowance is used up.
        """
        known = self._find(text)
        if not isinstance(known.selector, CompiledSelector):
            return known.selector
        # Exactly what `variable` exposes: devices that differ elsewhere have the same verdict.
        key = (driver, device.attributes, device.capacity, device.shared)
        verdict = known.verdicts.get(key)
        if verdict is None:
            # The check comes before the work, the charge after it: one evaluation may overdraw the
            # allowance, so each attempt makes progress.
            self._spend(0)
            verdict = known.verdicts[key] = self._verdict(known.selector, driver, device)
            self._verdicts += 1
            self._forget()
        return verdict

    def problem(self, text: str) -> str:
        """Return the error of the compilation, empty if there is none. Raises PostponedError."""
        selector = self._find(text).selector
        return selector if isinstance(selector, str) else ""

    def _verdict(self, selector: CompiledSelector, driver: str, device: DeviceInfo) -> bool | str:
        self.evaluations += 1
        try:
            verdict, cost = selector.measure(driver, device)
        except SelectorError as error:
            self.errors += 1
            # measure() does not report the cost of a failure, so 100 is an estimate.
            self._charge(COST if isinstance(error, CostlySelectorError) else 100)
            return str(error)
        self._charge(cost)
        return verdict

    def _find(self, text: str) -> _CachedSelector:
        found = self._known.get(text)
        if found is not None:
            self._known.move_to_end(text)
            return found
        self._spend(0)
        self._charge(COMPILATION + 10 * len(text))
        try:
            found = _CachedSelector(compile_selector(text))
        except SelectorError as error:
            # Errors are kept as well: a selector that does not compile is not parsed for every pod.
            found = _CachedSelector(str(error))
        self._known[text] = found
        self.length += len(text)
        self._forget()
        return found

    def _spend(self, cost: int) -> None:
        if self.allowance is not None and self.allowance <= cost:
            raise CostExhaustedError

    def _charge(self, cost: int) -> None:
        self.cost += cost
        if self.allowance is not None:
            self.allowance -= cost

    def _forget(self) -> None:
        # The last selector stays, as its verdict is about to be returned.
        while len(self._known) > 1 and (
            self._verdicts > self._most or self.length > _TEXT or len(self._known) > _COMPILED
        ):
            text, known = self._known.popitem(last=False)
            self.length -= len(text)
            self._verdicts -= len(known.verdicts)
        if self._verdicts > self._most:
            known = next(iter(self._known.values()))
            self._verdicts -= len(known.verdicts) - 1
            # One selector alone can exceed the limit: it keeps its newest verdict.
            last = next(reversed(known.verdicts))
            known.verdicts = {last: known.verdicts[last]}


class _CachedSelector:
    """A selector, or the reason why it does not compile, and its verdicts on devices."""

    __slots__ = ("selector", "verdicts")

    def __init__(self, selector: CompiledSelector | str) -> None:
        self.selector = selector
        self.verdicts: dict[tuple[Any, ...], bool | str] = {}


_COMPILED: Final = 2048
"""Number of selectors kept; the least recently used are dropped."""

_TEXT: Final = 256 * 1024
"""Characters of all selectors kept; the least recently used are dropped. A compiled selector takes
up to 180 bytes for each byte of its text."""
