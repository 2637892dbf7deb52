"""Gangs and plain workloads during changes of a cluster, in memory."""
