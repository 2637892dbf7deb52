"""Groups that pods name themselves, by labels or by PodGroups of scheduler-plugins."""
