"""A table of faults on a control plane of three, with three replicas of each process of Muster."""
