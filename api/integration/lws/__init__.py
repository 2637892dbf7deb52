"""LeaderWorkerSets: their admission, and the groups of their replicas."""
