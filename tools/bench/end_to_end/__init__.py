"""Scheduling from end to end on the real control plane: `python -m tools.bench.end_to_end --help`.

Read the modules in this order: `cases` (what is measured), `objects` (its objects), `subjects` (the
schedulers), `wire` and `observer` (creation and observation of objects), `raw` (the API server's
own limit), `run` (one measurement), `results` (storage and tables).
"""
