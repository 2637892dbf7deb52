"""The objects of the cluster that reviews look up."""
