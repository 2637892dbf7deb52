"""A control plane of three behind a load balancer, and three replicas of each process of Muster."""
