"""The JobSet controller and its admission rules, as of JobSet v0.11.0."""
