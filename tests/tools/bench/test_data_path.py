"""The path of a pod is measured from its watch line to its Binding, and no longer."""

from tools.bench.data_path import ROOT, stage


async def test_a_plain_pod_passes_from_the_watch_to_the_binding() -> None:
    async with stage() as on:
        passed = await on.passed("plain")
        counted = (passed.files, passed.changes)
        await on.passed("next")

    for path in ("kube/informers/watching.py", "scheduler/binding/binder.py"):
        assert str(ROOT / path) in passed.files
    assert (passed.files, passed.changes) == counted
    assert len(passed.files) < len(passed.functions) < 2000
    assert str(passed).startswith(f"{len(passed.files)} files, ")
