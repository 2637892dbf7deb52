"""Decides where gangs of pods go, and binds them.

`watch` keeps the state of `core` up to date. While this process leads (`app`), `loop` runs the
`cycle`: the `queue` has the next root, `core` decides, `preemptor` and `evictor` make room,
`binder` sends the Bindings, and `status` writes the conditions that `conditions` derives.
"""
