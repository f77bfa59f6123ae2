"""The vendor's front end in a process of its own: `python -m fusegen.vendor.frontend`.

`triton` here is that of triton-ascend. Nothing outside of this folder may import `stand_ins` or `ttir`: the simulator
has stand-ins of the same names, and one process can have only one of the two.
"""
