"""`muster uninstall`: takes Muster out of a cluster, and hands over what it schedules.

`found` reads the cluster, `plan` (with `release`) says in which order what is done, both without
side effects; `execute` does it. Nothing is remembered but what the cluster holds: a second run
reads again, and so goes on where the first one ended.
"""
