"""One component each: webhook, console, start, groups, launch, lab."""
