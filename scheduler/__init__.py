"""Decides where gangs of pods go, and binds them.

`watch` keeps the state of `core` up to date. While this process leads (`app`), `cycle` takes one
root after the other from the `queue`: `core` decides, `preemption` makes room, `binding` sends the
Bindings, and `status` says on groups and pods what they wait for. Each package imports only those
below it: app, binding, cycle, snapshot, status, claims, held_places, preemption, queue, watch,
expected, events, support, decoding, cel, core.
"""
