"""Recording of a live cluster as a trace, and its replay on that cluster's nodes."""

import asyncio
import json
from pathlib import Path

import pytest

from cli import commands
from e2e.harness.environment import Environment
from e2e.harness.groups import leaf, members


async def muster(*words: str) -> None:
    assert await asyncio.to_thread(commands.main, list(words)) == 0


async def test_what_ran_is_recorded_and_played_again(
    env: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        await env.add_node(cpu=3)
    await leaf(env, "train", 4)
    await env.runs(members("train"), 4)
    await leaf(env, "late", 4)
    await env.waits("late", needed=4, free=2)
    access = ("--kubeconfig", str(env.cluster.kubeconfig))

    await muster("lab", "record", *access)
    said = capsys.readouterr()
    jobs = [json.loads(line) for line in said.out.splitlines()]
    (own,) = [job for job in jobs if job["namespace"] == env.name]
    assert (own["name"], own["pods"], own["min_pods"]) == ("train", 4, 4)
    assert own["requests"] == {"cpu": "1"}
    assert "with their time so far as duration; left out: 1 waiting" in said.err

    trace, nodes, results = (tmp_path / name for name in ("t.jsonl", "s.json", "o.json"))
    trace.write_text(f"{json.dumps(own)}\n")
    await muster("snapshot", f"{nodes}", *access)
    played = ("--snapshot", f"{nodes}", "--trace", f"{trace}", "--json", f"{results}")
    await muster("lab", "run", *played)
    (result,) = json.loads(results.read_text())["results"]
    assert (result["jobs"], result["finished"]) == (1, 1)
    assert result["wait"]["longest"] == 0
