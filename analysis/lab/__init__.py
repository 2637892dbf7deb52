"""`muster lab`: the outcome of a trace of jobs on a cluster, in virtual time.

In reading order: `trace` and `cluster` are the input, `variants` the compared settings.
`simulation` plays the events, `lives` has the state of a job, and `deciding` the scheduler's own
objects. `usage` and `fragments` measure, `results` aggregates, `report` and `page` show the
results, and `limits` checks them. `generate` and `importers` create traces.
"""
