"""A real Prometheus that scrapes Muster's processes, and the queries of tests."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp
import yaml

from e2e.harness.controlplane.process import Process
from e2e.harness.support import ports

SCRAPE_SECONDS = 1


class Prometheus:
    """One process; `targets` are HOST:PORT by job. It ends with the block."""

    def __init__(
        self, binary: Path, folder: Path, targets: Mapping[str, str], rules: Sequence[Path]
    ) -> None:
        config = {
            "global": {
                "scrape_interval": f"{SCRAPE_SECONDS}s",
                "evaluation_interval": f"{SCRAPE_SECONDS}s",
            },
            "rule_files": [str(rule) for rule in rules],
            "scrape_configs": [
                {"job_name": name, "static_configs": [{"targets": [address]}]}
                for name, address in targets.items()
            ],
        }
        file = folder / "prometheus.yaml"
        file.write_text(yaml.safe_dump(config))
        [port] = ports.free(1)
        self._url = f"http://127.0.0.1:{port}"
        command = [
            str(binary),
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        self._process = Process("prometheus", command, logs=folder)

    async def __aenter__(self) -> Self:
        self._process.start()
        self._session = aiohttp.ClientSession(trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.kill()
        await self._session.close()

    async def ready(self) -> bool:
        try:
            async with self._session.get(f"{self._url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            return False

    async def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query. Raises AssertionError if Prometheus rejects it."""
        data = await self._get("query", query=expression)
        return list(data["result"])

    async def query_range(
        self, expression: str, start: float, end: float, step: float
    ) -> list[dict[str, Any]]:
        """Return the series between two times, in seconds since 1970."""
        times = {"start": str(start), "end": str(end), "step": str(step)}
        data = await self._get("query_range", query=expression, **times)
        return list(data["result"])

    async def names(self) -> set[str]:
        """Return the names of all scraped metrics."""
        return set(await self._get("label/__name__/values"))

    async def series(self, match: str) -> list[dict[str, str]]:
        """Return the labels of all matching series."""
        return list(await self._get("series", **{"match[]": match}))

    async def firing(self) -> set[str]:
        """Return the names of the firing alerts."""
        alerts = (await self._get("alerts"))["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    async def _get(self, path: str, **params: str) -> Any:
        async with self._session.get(f"{self._url}/api/v1/{path}", params=params) as answer:
            body = json.loads(await answer.read())
        assert body["status"] == "success", body
        return body["data"]
