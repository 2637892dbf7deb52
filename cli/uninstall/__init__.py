"""`muster uninstall`: removal of Muster from a cluster, and handoff of its pods.

`found` reads the cluster and `plan` (with `release`) orders the steps, both without side effects;
`execute` carries them out. All state is in the cluster: a second run reads again, and so continues
where the first one ended.
"""
