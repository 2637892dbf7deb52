"""LeaderWorkerSets: what admission writes on them, and the groups of their replicas."""
