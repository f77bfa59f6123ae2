"""fusegen: fused collective Triton kernels for Ascend NPUs, rendered from declarative specs and proved on a CPU.

`fusegen.pipeline` is the place to start reading. Importing this package imports nothing else, so that the command line
starts quickly.
"""

__version__ = "0.1.0"
