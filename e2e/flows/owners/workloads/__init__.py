"""Groups of StatefulSets, Deployments, bare pods, LeaderWorkerSets and TrainJobs."""
