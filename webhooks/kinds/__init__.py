"""One file for each kind that is admitted."""
