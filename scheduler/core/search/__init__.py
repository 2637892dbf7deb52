"""The search for places: over a tree, over domains, over nodes."""
