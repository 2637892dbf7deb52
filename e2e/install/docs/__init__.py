"""The commands of the documentation, run as they stand on the page."""
