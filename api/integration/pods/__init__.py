"""Groups that pods name themselves, by labels or by scheduler-plugins' PodGroups."""
