"""KubeRay: RayClusters, and the RayJobs and RayServices that create them (`kinds`)."""
