"""CEL functions of texts: CEL's own, the strings extension, and Kubernetes' find and findAll."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from scheduler.cel.errors import EvaluationError, no_overload
from scheduler.cel.evaluation import EvaluationFrame, Function, Functions
from scheduler.cel.operators import found_in, tenths
from scheduler.cel.patterns import COMPILATION, Pattern
from scheduler.cel.values import Value, type_name


def _text(value: Value, function: str) -> str:
    if not isinstance(value, str):
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _number(value: Value, function: str) -> int:
    if type(value) is not int:
        raise no_overload(f"{function}({type_name(value)})")
    return value


def _test(name: str, test: Callable[[str, str], bool]) -> Function:
    def evaluate(frame: EvaluationFrame, one: Value, other: Value) -> Value:
        text, part = _text(one, name), _text(other, name)
        frame.charge(max(1, tenths(len(part))))
        return test(text, part)

    return evaluate


def _contains(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    text, part = _text(one, "contains"), _text(other, "contains")
    frame.charge(max(1, tenths(len(text)) * tenths(len(part))))
    return part in text


def _pattern(frame: EvaluationFrame, text: str, given: Value, function: str) -> Any:
    """Return the regular expression, and charge for a search of the text with it."""
    if not isinstance(given, Pattern):
        _text(given, function)
        frame.charge(COMPILATION)
        given = Pattern(given)
    # kube-scheduler's estimate: a quarter of the pattern for each ten characters.
    frame.charge(max(1, tenths(len(text) + 1) * -(-len(given.text) // 4)))
    return given.regex


def _matches(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    text = _text(one, "matches")
    return _pattern(frame, text, other, "matches").search(text) is not None


def _find(frame: EvaluationFrame, one: Value, other: Value) -> Value:
    text = _text(one, "find")
    found = _pattern(frame, text, other, "find").search(text)
    return found[0] if found else ""


def _find_all(frame: EvaluationFrame, one: Value, other: Value, most: Value = -1) -> Value:
    text, limit = _text(one, "findAll"), _number(most, "findAll")
    regex = _pattern(frame, text, other, "findAll")
    made: list[Value] = []
    # Go's FindAllString finds none with a limit of 0, and all with a negative one.
    if limit == 0:
        return made
    for found in regex.finditer(text):
        # The library takes a dozen calls for each match.
        frame.charge(2)
        made.append(found[0])
        if len(made) == limit:
            break
    return made


def _char_at(frame: EvaluationFrame, one: Value, at: Value) -> Value:
    text, place = _text(one, "charAt"), _number(at, "charAt")
    frame.charge(1)
    # CEL's charAt returns an empty text at the position after the last character.
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return text[place : place + 1]


def _index_of(frame: EvaluationFrame, one: Value, part: Value, start: Value = 0) -> Value:
    if isinstance(one, list):
        return _first_index(frame, one, part)
    text, sought = _text(one, "indexOf"), _text(part, "indexOf")
    place = _number(start, "indexOf")
    frame.charge(max(1, tenths(len(text)) * max(1, tenths(len(sought)))))
    # As in kube-scheduler: an empty text is found anywhere, even beyond the end.
    if not sought:
        return place
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return text.find(sought, place)


def _first_index(frame: EvaluationFrame, items: list[Value], item: Value) -> int:
    for place, each in enumerate(items):
        if found_in(frame, item, [each]):
            return place
    return -1


def _last_index_of(frame: EvaluationFrame, one: Value, part: Value, *start: Value) -> Value:
    if isinstance(one, list):
        backwards = _first_index(frame, one[::-1], part)
        return -1 if backwards < 0 else len(one) - 1 - backwards
    text, sought = _text(one, "lastIndexOf"), _text(part, "lastIndexOf")
    place = _number(start[0], "lastIndexOf") if start else len(text)
    frame.charge(max(1, tenths(len(text)) * max(1, tenths(len(sought)))))
    if not sought:
        return place
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return text.rfind(sought, 0, place + len(sought))


def _substring(frame: EvaluationFrame, one: Value, start: Value, *stop: Value) -> Value:
    text, first = _text(one, "substring"), _number(start, "substring")
    last = _number(stop[0], "substring") if stop else len(text)
    frame.charge(max(1, tenths(len(text))))
    for place in (first, last):
        if not 0 <= place <= len(text):
            raise EvaluationError(f"index out of range: {place}")
    if first > last:
        raise EvaluationError(f"invalid substring range. start: {first}, end: {last}")
    return text[first:last]


def _replace(frame: EvaluationFrame, one: Value, old: Value, new: Value, most: Value = -1) -> Value:
    text, gone, come = _text(one, "replace"), _text(old, "replace"), _text(new, "replace")
    limit = _number(most, "replace")
    frame.charge(max(1, tenths(2 * len(text)) * max(1, tenths(len(gone)))))
    # An empty text is replaced between all characters and at both ends, as in Go.
    times = len(text) + 1 if not gone else text.count(gone)
    times = times if limit < 0 else min(times, limit)
    # The result may be far longer than its parts, so its length is charged before it exists.
    frame.charge(tenths(times * len(come)))
    return text.replace(gone, come, limit if limit >= 0 else -1)


def _split(frame: EvaluationFrame, one: Value, by: Value, most: Value = -1) -> Value:
    text, separator = _text(one, "split"), _text(by, "split")
    limit = _number(most, "split")
    pieces = len(text) if not separator else text.count(separator) + 1
    frame.charge(max(1, tenths(2 * len(text)) * max(1, tenths(len(separator))), pieces))
    if limit == 0:
        return []
    # Go splits by an empty separator into characters; Python raises an error.
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def _join(frame: EvaluationFrame, of: Value, by: Value = "") -> Value:
    separator = _text(by, "join")
    if not isinstance(of, list):
        raise no_overload("join")
    length = sum(len(_text(each, "join")) + len(separator) for each in of)
    frame.charge(max(1, tenths(2 * length), tenths(len(of))))
    return separator.join(of)


# ASCII only, as the names of the functions state; str.lower() changes other letters, too.
_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {lower: upper for upper, lower in _LOWER.items()}
# Unicode's White_Space, as in Go. Python's strip() also removes U+001C to U+001F.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_QUOTED: Final = {
    ord(char): f"\\{letter}" for char, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)
}


def _mapped(name: str, change: Callable[[str], str]) -> Function:
    def evaluate(frame: EvaluationFrame, one: Value) -> Value:
        text = _text(one, name)
        frame.charge(max(1, tenths(len(text))))
        return change(text)

    return evaluate


FUNCTIONS: Final[Functions] = {
    ("startsWith", True): (2, 2, _test("startsWith", str.startswith)),
    ("endsWith", True): (2, 2, _test("endsWith", str.endswith)),
    ("contains", True): (2, 2, _contains),
    ("matches", True): (2, 2, _matches),
    ("matches", False): (2, 2, _matches),
    ("find", True): (2, 2, _find),
    ("findAll", True): (2, 3, _find_all),
    ("charAt", True): (2, 2, _char_at),
    ("indexOf", True): (2, 3, _index_of),
    ("lastIndexOf", True): (2, 3, _last_index_of),
    ("substring", True): (2, 3, _substring),
    ("replace", True): (3, 4, _replace),
    ("split", True): (2, 3, _split),
    ("join", True): (1, 2, _join),
    ("lowerAscii", True): (1, 1, _mapped("lowerAscii", lambda text: text.translate(_LOWER))),
    ("upperAscii", True): (1, 1, _mapped("upperAscii", lambda text: text.translate(_UPPER))),
    ("trim", True): (1, 1, _mapped("trim", lambda text: text.strip(_SPACE))),
    ("strings.quote", False): (
        1,
        1,
        _mapped("strings.quote", lambda text: f'"{text.translate(_QUOTED)}"'),
    ),
}
