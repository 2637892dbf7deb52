"""What happens to gangs and to plain workloads while a cluster lives, in memory."""
