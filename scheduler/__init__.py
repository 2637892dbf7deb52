"""Decides where gangs of pods go, and binds them.

Watches (`cache`, over `objects`, `requirements` and `decode`) keep the state of `core`. While this
process leads (`app`), `loop` runs the `cycle`: the `queue` says which root is next, `core` decides,
`binder` sends the Bindings, and `status` tells the outcome in the words of `conditions`.
"""
