"""Scheduling from end to end on the real control plane: `python -m tools.bench.end_to_end --help`.

Read the modules in this order: `cases` (what is measured), `objects` (on what), `subjects` (who
schedules), `wire` and `observer` (how objects are made and what is seen), `raw` (the API server's
own limit), `run` (one measurement), `results` (what is kept and how it is shown).
"""
