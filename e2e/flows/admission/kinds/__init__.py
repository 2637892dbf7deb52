"""Admission of each kind through a complete API server, in every version."""
