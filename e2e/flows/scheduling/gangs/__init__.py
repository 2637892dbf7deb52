"""Gang scheduling: scenarios of the KEPs, changing counts, volumes, names of schedulers."""
