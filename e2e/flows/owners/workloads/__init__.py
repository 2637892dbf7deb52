"""Groups of StatefulSets, Deployments, bare pods, LeaderWorkerSets, TrainJobs, Ray and MPI."""
