"""Kernels for the CPU, each beside the class that calls it; the twins are in `lkge.backends`."""
