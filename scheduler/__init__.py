"""The scheduler: decides where gangs of pods go, and binds them.

`watch` keeps the state of `core` up to date. While this process leads (`app`), `cycle` takes one
root after the other from the `queue`: `core` decides, `preemption` evicts, `binding` sends the
Bindings, and `status` reports on groups and pods why they wait. Each package imports only those
below it: app, binding, cycle, snapshot, status, claims, held_places, preemption, queue, watch,
expected, events, support, decoding, cel, core.
"""
