"""The sources of the page's texts: constants of its scripts, and responses of the server."""

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Error, Page, Response

STATIC: Final = Path(__file__).resolve().parents[2] / "console" / "static"

_NUMBER: Final = re.compile(
    r"\d{1,2} [A-Z][a-z]{2,3} \d{4}|\d\d:\d\d(:\d\d)?|-?\d[\d,]*(\.\d+)?( ([KMGTPE]i)?B\b)?"
)
"""A date, a time, or a number, with the unit of bytes."""
_PLURALS: Final = re.compile(r'plural\([^"]*"(\w+)"\)')
_ATTRIBUTE: Final = re.compile(r'="([^"]*)"')
_TAG: Final = re.compile(r"<[^>]*>")
_HOLE: Final = "\0"

_ATTEMPTS: Final = 30
"""Looks at the page until every text has a source."""

_LISTEN: Final = """
const listen = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, act) {
  listen.call(this, name, (event) => (event.data && answered(event.data), act(event)));
};
window.drawn = new Set();
const draw = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
  if (this.canvas.isConnected) drawn.add(text);
  draw.call(this, text, ...rest);
};
"""
_SHOWN: Final = """() => {
  const main = document.querySelector("main");
  const walker = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const texts = [...drawn];
  while (walker.nextNode()) texts.push(walker.currentNode.data);
  return [...texts, ...[...main.querySelectorAll("input, textarea")].map((field) => field.value)];
}"""


class Sources:
    """The responses and events of a page's server. Create it before the page is opened."""

    def __init__(self) -> None:
        self._known = set(_constants())

    @classmethod
    async def of(cls, page: Page) -> "Sources":
        made = cls()
        page.on("response", made._answered)
        await page.expose_function("answered", made.add)
        await page.add_init_script(_LISTEN)
        return made

    def add(self, answer: str) -> None:
        """Add a response or an event in JSON."""
        self._known.update(_parts(json.loads(answer)))

    def given(self, *texts: str) -> None:
        """Add the user's input in fields and URLs."""
        self._known.update(map(_plain, texts))

    async def unknown(self, page: Page) -> list[str]:
        """Return the texts of the page's main part without a source.

        The page may show a response before this process has read it, so it asks again for a while.
        """
        found: list[str] = []
        for _ in range(_ATTEMPTS):
            shown = {_plain(text) for text in await page.evaluate(_SHOWN)}
            found = sorted(text for text in shown if not self._made_of_known(text))
            if not found:
                break
            await page.wait_for_timeout(100)
        return found

    async def _answered(self, response: Response) -> None:
        if "/api/" in response.url and "json" in response.headers.get("content-type", ""):
            # The browser drops the responses of a page that was left, which no longer shows them.
            with contextlib.suppress(Error):
                self.add(await response.text())

    def _made_of_known(self, text: str) -> bool:
        """Return true if the text consists of complete constants, response values and numbers."""
        if text.endswith("…"):  # a name that is longer than its box on the map
            return any(one.startswith(text[:-1]) for one in self._known)
        ends = [at for at in range(1, len(text) + 1) if _between_words(text, at)]
        reached = {0}
        for start in [0, *ends]:
            if start not in reached:
                continue
            if text[start : start + 1] == " ":
                reached.add(start + 1)
            if number := _NUMBER.match(text, start):
                reached.add(number.end())
            reached.update(end for end in ends if text[start:end] in self._known)
        return len(text) in reached


def _between_words(text: str, at: int) -> bool:
    return not re.match(r"\w\w", text[at - 1 : at + 1])


def _plain(text: str) -> str:
    return " ".join(re.sub("[\u2068\u2069]", "", text).split())


def _parts(answer: Any) -> Iterator[str]:
    """Yield each value and field name, and the parts of IDs and label keys."""
    if isinstance(answer, dict):
        answer = [*answer, *answer.values()]
    if isinstance(answer, list):
        for part in answer:
            yield from _parts(part)
    elif isinstance(answer, str):
        yield _plain(answer)
        if " " not in answer:
            yield from answer.split("/")


def _constants() -> Iterator[str]:
    for path in STATIC.glob("js/**/*.js"):
        source = path.read_text("utf-8")
        yield from (f"{word}s" for word in _PLURALS.findall(source))
        for literal in _code(source, iter(range(len(source)))):
            yield from filter(None, map(_plain, literal.split(_HOLE)))


def _code(source: str, rest: Iterator[int]) -> Iterator[str]:
    """Yield the strings and templates of a script up to its closing brace.

    Templates have a hole for each expression, and no tags.
    """
    depth = 0
    for at in rest:
        each = source[at]
        if source.startswith("//", at):
            _skip(rest, source.index("\n", at) - at)
        elif each in "\"'":
            end = re.compile(rf"(?:\\.|[^{each}\\])*").match(source, at + 1)
            assert end is not None
            yield end[0]
            _skip(rest, end.end() - at)
        elif each == "`":
            yield from _template(source, rest, markup=source.endswith("html", 0, at))
        elif each == "{":
            depth += 1
        elif each == "}" and (depth := depth - 1) < 0:
            return


def _template(source: str, rest: Iterator[int], *, markup: bool) -> Iterator[str]:
    text = ""
    for at in rest:
        if source[at] == "`":
            break
        if source.startswith("${", at):
            next(rest)
            yield from _code(source, rest)
            text += _HOLE
        else:
            text += source[at]
    if markup:
        yield from _ATTRIBUTE.findall(text)
    yield _TAG.sub(_HOLE, text) if markup else text


def _skip(rest: Iterable[int], count: int) -> None:
    for _ in zip(range(count), rest, strict=False):
        pass
