"""Results as JSON, and pages and pictures of them."""
