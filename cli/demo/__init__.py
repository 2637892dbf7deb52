"""`muster demo`: the embedded cluster, Muster and the examples, shown in a terminal."""
