"""`muster lab`: what a trace of jobs would do on a cluster, in virtual time.

In reading order: `trace` and `cluster` are the input, `variants` what is compared; `simulation`
plays the events, `lives` is a job's state, `deciding` has the scheduler's own objects; `usage` and
`fragments` measure, `results` sums up, `report` and `page` show it, `limits` judge it; `generate`
and `importers` make traces.
"""
