"""What the kinds have in common: options, rules, objects, minimums, claims."""
