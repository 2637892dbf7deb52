"""The webhook process from outside: installed, rotated, restarted, under load."""
