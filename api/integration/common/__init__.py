"""The common part of all kinds: options, rules, objects, minimums, claims."""
