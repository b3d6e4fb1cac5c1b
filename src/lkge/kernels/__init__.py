"""The hot loops. `fused` modules are numba for CPU; `plain` is torch, for any device, their twin.

`backend_for` picks one; both speak the `Backend` protocol and must give the same numbers.
"""
