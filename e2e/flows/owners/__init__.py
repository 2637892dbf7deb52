"""Groups of Jobs, JobSets and the other owners of pods."""
