"""The server: access, rejected requests, and the response at each URL."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from yarl import URL

from analysis.what_if.messages import AddNodes, WhatIfAnswer, WhatIfRequest
from console.access.guard import POLICY
from console.access.rate import AT_ONCE, PER_SECOND, Rates
from console.base import protocols
from console.serving.server import STATIC
from console.serving.stream import MOST_OF_SESSION
from tests.console.browser import Browser, Site, browser, site
from tests.console.cluster_builder import Builder


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    cluster = Builder()
    cluster.racks()
    cluster.gang("g", 2)
    cluster.pods("g", 2, cpu=50)
    async with site(cluster) as made:
        yield made


@pytest.fixture
async def page(served: Site) -> AsyncIterator[Browser]:
    async with browser(served) as made:
        yield made


async def test_the_key_opens_one_session_and_is_used_up(served: Site) -> None:
    async with browser(served, logged_in=False) as first, browser(served, logged_in=False) as other:
        assert (await first.get("/api/session"))[0] == 401
        url = f"{first.url}/?key={served.viewers.key}"
        async with first.http.get(url, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
            assert (answer.status, answer.headers["Location"]) == (303, "/")
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        assert str(served.port) in cookie
        assert served.viewers.key not in cookie

        status, session = await first.get("/api/session")

        assert status == 200
        assert session == {
            "user": "admin", "local": True, "namespaces": None, "nodes": True, "expires": None,
            "views": ["map", "queue", "workloads", "what-if", "history"],
        }  # fmt: skip
        await other.get(f"/?key={served.viewers.key}")
        assert (await other.get("/api/session"))[0] == 401


@pytest.mark.parametrize("key", ["", "x", "\u00e9", "A" * 4000])
async def test_a_wrong_key_opens_nothing_and_uses_nothing_up(served: Site, key: str) -> None:
    async with browser(served, logged_in=False) as visitor:
        async with visitor.http.get(
            f"{visitor.url}/", params={"key": key}, allow_redirects=False
        ) as answer:
            assert "Set-Cookie" not in answer.headers
        assert (await visitor.get("/api/session"))[0] == 401
        await visitor.get(f"/?key={served.viewers.key}")
        assert (await visitor.get("/api/session"))[0] == 200


async def test_a_prefetch_does_not_use_the_key_up(served: Site) -> None:
    async with browser(served, logged_in=False) as visitor:
        await visitor.get(f"/?key={served.viewers.key}", **{"Sec-Purpose": "prefetch"})
        assert (await visitor.get("/api/session"))[0] == 401
        await visitor.get(f"/?key={served.viewers.key}")
        assert (await visitor.get("/api/session"))[0] == 200


async def test_tokens_are_not_taken_here_and_logging_out_ends_it(page: Browser) -> None:
    assert (await page.post("/api/login", {"token": "x"}))[0] == 401
    assert (await page.post("/api/logout"))[0] == 200
    assert (await page.get("/api/session"))[0] == 401


@pytest.mark.parametrize(
    "path",
    ["/api/session", "/api/map", "/api/map/largest?shape=cpu=1&key=x", "/api/map/pods",
     "/api/queue", "/api/workloads", "/api/workloads/ns/PodGroup/g",
     "/api/workloads/ns/PodGroup/g/tree",
     "/api/workloads/ns/PodGroup/g/why?node=x",
     "/api/history", "/api/events?views=map"],
)  # fmt: skip
async def test_nothing_is_told_without_a_session(served: Site, path: str) -> None:
    async with browser(served, logged_in=False) as visitor:
        assert await visitor.get(path) == (401, {"message": "Log in first."})
        assert (await visitor.get(path, Cookie=f"{served.viewers.cookie}=guess"))[0] == 401
        assert (await visitor.post("/api/what-if"))[0] == 401
        assert (await visitor.post("/api/fit"))[0] == 401


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil", ""])
@pytest.mark.parametrize("path", ["/", "/api/map", "/static/index.html"])
async def test_other_hosts_are_refused(page: Browser, host: str, path: str) -> None:
    assert (await page.get(path, Host=host))[0] in (400, 421)


async def test_other_origins_are_refused(page: Browser) -> None:
    for origin in ("http://evil.example", "null", "https://127.0.0.1:1", ""):
        assert (await page.post("/api/logout", Origin=origin))[0] == 403
        assert (await page.get("/api/map", Origin=origin))[0] == 403
    for fetched in ("cross-site", "same-site"):
        assert (await page.get("/api/map", **{"Sec-Fetch-Site": fetched}))[0] == 403
    assert (await page.get("/api/map", Origin=page.url, **{"Sec-Fetch-Site": "same-origin"}))[
        0
    ] == 200
    async with page.http.post(f"{page.url}/api/logout") as answer:
        assert answer.status == 403


async def test_a_header_that_is_there_twice_is_refused(served: Site) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    host = f"Host: 127.0.0.1:{served.port}\r\n"
    writer.write(f"GET / HTTP/1.1\r\n{host}{host}Connection: close\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 400")


async def test_every_answer_has_the_headers(page: Browser) -> None:
    paths = ("/", "/map", "/static/js/main.js", "/api/map", "/api/none", "/static/none", "/queue")
    for path in paths:
        async with page.http.get(page.url + path) as answer:
            assert answer.headers["Content-Security-Policy"] == POLICY
            assert "unsafe" not in POLICY
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            assert answer.headers.getall("Cache-Control") == ["no-store"]
            assert "Access-Control-Allow-Origin" not in answer.headers


async def test_every_address_of_a_view_gives_the_page(page: Browser) -> None:
    want = (STATIC / "index.html").read_text("utf-8")
    for path in (
        "/",
        "/map",
        "/queue?reason=Unschedulable",
        "/workloads/ns/Job/a%2Fb",
        "/what-if",
        "/x/y",
    ):
        assert await page.get(path) == (200, want)


async def test_files_have_their_types_and_nothing_else_is_served(page: Browser) -> None:
    async with page.http.get(f"{page.url}/static/js/main.js") as answer:
        assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"
    for path in ("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"):
        url = URL(page.url + path, encoded=True)
        async with page.http.get(url) as answer:
            assert b"import" not in await answer.read()


async def test_the_views_answer(page: Browser) -> None:
    status, found = await page.get("/api/map?resource=memory")
    assert (status, found["resource"]) == (200, "memory")
    status, found = await page.get("/api/queue?limit=1")
    assert (status, found["total"], found["items"][0]["name"]) == (200, 1, "g")
    status, found = await page.get("/api/workloads?search=g")
    assert (status, found["items"][0]["id"]) == (200, "ns/PodGroup/g")
    status, tree = await page.get("/api/workloads/ns/PodGroup/g/tree")
    assert (status, tree["counts"]["pods"], len(tree["pods"])) == (200, 2, 2)
    status, found = await page.get("/api/workloads/ns/PodGroup/g")
    assert (status, found["tree"]["counts"]["pods"], found["yaml"]) == (200, 2, "")
    status, found = await page.get("/api/workloads/ns/PodGroup/g/why?node=n-1-1-1")
    assert (status, found["fits"]) == (200, False)
    assert await page.get("/api/map/pods?workload=ns/PodGroup/g") == (200, [])


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/map?resource=none", 404),
        ("/api/map/largest?shape=x&key=y", 404),
        ("/api/map/pods?workload=ns/PodGroup/none", 404),
        ("/api/queue?priorityMin=high", 400),
        ("/api/queue?limit=1e9", 400),
        ("/api/queue?after=x", 400),
        ("/api/workloads?after=x", 400),
        ("/api/workloads?limit=x", 400),
        ("/api/workloads?status=none", 400),
        ("/api/workloads/ns/PodGroup/none", 404),
        ("/api/workloads/ns/PodGroup/none/tree", 404),
        ("/api/workloads/ns/PodGroup/g/why", 404),
        ("/api/events?views=all", 400),
        ("/api/events?views=workload:a/b/c", 404),
        ("/api/events?views=workload:a/b/c,workload:a/b/d", 400),
        ("/api/none", 404),
        ("/api/", 404),
        (f"/api/queue?x={'x' * 9000}", 414),
    ],
)
async def test_what_cannot_be_answered_says_why(page: Browser, path: str, status: int) -> None:
    code, answer = await page.get(path)

    assert code == status
    assert answer["message"].endswith(".")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"manifests": 5}', "application/json", 400),
        (b'{"changes": [{"addNodes": 1}]}', "application/json", 400),
        (b'{"changes": [' + b"{}," * 100 + b"{}]}", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"{}", "text/plain", 415),
        (b" " * 5_000_000, "application/json", 413),
    ],
)
async def test_bodies_are_bounded_and_read_with_care(body: bytes, kind: str, status: int) -> None:
    async with site(Builder(), what_if=_Trying()) as served, browser(served) as page:
        found, answer = await page.post("/api/what-if", body, **{"Content-Type": kind})

    assert found == status
    assert answer["message"]


async def test_a_session_asks_one_question_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request counts while its body arrives, which may be megabytes."""
    begun, ended = asyncio.Event(), asyncio.Event()

    class Slow(_Trying):
        async def __call__(self, request: WhatIfRequest, viewer: protocols.Viewer) -> WhatIfAnswer:
            begun.set()
            await ended.wait()
            return await super().__call__(request, viewer)

    async with site(Builder(), what_if=Slow()) as served, browser(served) as page:
        first = asyncio.create_task(page.post("/api/what-if", {}))
        await begun.wait()
        second, _ = await page.post("/api/what-if", {})
        ended.set()

        assert second == 429
        assert (await first)[0] == 200
        monkeypatch.setattr("console.serving.server.MOST_QUESTIONS", 0)
        assert (await page.post("/api/what-if", {}))[0] == 429


async def test_what_if_is_asked_and_may_refuse() -> None:
    tried = _Trying()
    async with site(Builder(), what_if=tried) as served, browser(served) as page:
        assert "what-if" in (await page.get("/api/session"))[1]["views"]
        body = {"manifests": "a: b", "changes": [{"addNodes": {"like": "n", "count": 2}}]}
        status, answer = await page.post("/api/what-if", body)
        assert (status, answer["lines"]) == (200, ["nothing"])
        status, answer = await page.post("/api/what-if", {"manifests": "bad"})
        assert (status, answer["message"]) == (400, "line 1: it is bad.")

    assert tried.asked[0].changes[0].add_nodes == AddNodes(like="n", count=2)


class _Trying:
    def __init__(self) -> None:
        self.asked: list[WhatIfRequest] = []

    async def __call__(self, request: WhatIfRequest, viewer: protocols.Viewer) -> WhatIfAnswer:
        self.asked.append(request)
        if request.manifests == "bad":
            raise protocols.RefusedError(400, "line 1: it is bad.")
        return WhatIfAnswer(placements=[], waiting=[], evicted=[], lines=["nothing"])


def test_one_session_cannot_ask_without_end() -> None:
    rates = Rates()
    for _ in range(int(AT_ONCE)):
        rates.count("one", 5.0)
    with pytest.raises(protocols.RefusedError) as raised:
        rates.count("one", 5.0)
    assert raised.value.status == 429
    rates.count("other", 5.0)
    rates.count("one", 5.0 + 1 / PER_SECOND)
    with pytest.raises(protocols.RefusedError):
        rates.count("one", 5.0 + 1 / PER_SECOND)
    for _ in range(int(AT_ONCE)):
        rates.count("one", 1e6)
    with pytest.raises(protocols.RefusedError):
        rates.count("one", 1e6)


async def test_the_number_of_streams_is_bounded_and_closed_ones_do_not_count(
    served: Site, page: Browser
) -> None:
    opened = [page.events("views=queue") for _ in range(MOST_OF_SESSION)]
    for each in opened:
        await each.__aenter__()
    status, answer = await page.get("/api/events?views=queue")
    assert (status, answer["message"]) == (
        429,
        "Too many pages are open: close one, then try again.",
    )

    for each in opened:
        await each.__aexit__(None, None, None)
    async with asyncio.timeout(20):
        while len(served.streams):
            served.cluster.pod()  # data to send, so that the server notices the disconnection
            await asyncio.sleep(0.02)
    async with page.events("views=queue"):
        assert len(served.streams) == 1


class _Two:
    """Viewers of two namespaces, by name."""

    cookie = "who"
    secure = False

    async def viewer(self, secret: str) -> protocols.Viewer | None:
        if secret not in ("a", "b"):
            return None
        return protocols.Viewer(secret, secret, namespaces=frozenset({secret}), nodes=False)

    async def log_in(self, token: str, peer: str = "") -> str:
        if token not in ("a", "b"):
            raise protocols.RefusedError(401, "The cluster does not know this token.")
        return token

    async def may_get(self, secret: str, id_: str) -> bool:
        return True

    async def may_create(self, secret: str, creation: protocols.Creation) -> bool:
        return True

    def use_key(self, key: str) -> str | None:
        return None

    def log_out(self, secret: str) -> None:
        """Do nothing: no session is stored."""


async def test_a_viewer_sees_no_more_than_their_rights() -> None:
    cluster = Builder()
    cluster.racks()
    for namespace in ("a", "b"):
        cluster.pod(namespace=namespace, name=f"{namespace}p", cpu=50)
    async with site(cluster, viewers=_Two()) as served, browser(served, logged_in=False) as page:
        status, _ = await page.post("/api/login", {"token": "c"})
        assert status == 401
        status, _ = await page.post("/api/login", {"token": "a"})
        assert status == 200
        session = (await page.get("/api/session"))[1]
        assert (session["namespaces"], session["nodes"]) == (["a"], False)
        assert "map" not in session["views"]
        for path in (
            "/api/map", "/api/map/largest?shape=cpu=1&key=k", "/api/map/pods?workload=a/Pod/ap",
            "/api/workloads/a/Pod/ap/why?node=n-1-1-1", "/api/events?views=map",
            "/api/queue?namespace=b", "/api/workloads?namespace=b",
        ):  # fmt: skip
            assert (await page.get(path))[0] == 403, path
        assert (await page.get("/api/workloads/b/Pod/bp"))[0] == 404
        assert (await page.get("/api/workloads/b/Pod/bp/tree"))[0] == 404
        assert (await page.get("/api/events?views=workload:b/Pod/bp"))[0] == 404
        assert (await page.get("/api/workloads/a/Pod/ap"))[0] == 200
        items = (await page.get("/api/queue"))[1]["items"]
        assert [item["id"] for item in items] == ["a/Pod/ap"]
        found = (await page.get("/api/workloads?search=p"))[1]
        assert [item["id"] for item in found["items"]] == ["a/Pod/ap"]
        async with page.events("views=queue") as events:
            await asyncio.sleep(0.1)
            cluster.pod(namespace="b", name="bq", cpu=50)
            await asyncio.sleep(0.1)
            cluster.pod(namespace="a", name="aq", cpu=50)
            names: set[str] = set()
            while "aq" not in names:
                change = await events.until("queue")
                names |= {row["name"] for row in change["changed"]}
            assert names <= {"ap", "aq"}
            assert change["total"] == 2
