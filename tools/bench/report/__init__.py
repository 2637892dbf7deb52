"""Results as JSON, pages and pictures."""
