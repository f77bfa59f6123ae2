"""The vendor's compiler on a CPU: what it makes of a generated module, and what it says about it.

    module --front--> TTIR --bridge--> linalg with distributed operations --compiler--> final HIVM --facts--> findings

It knows generated modules and their entries in the manifest, never plans or templates. `compilation` is that line as
code. The vendor's `triton` lives in processes of its own (`frontend`), for the simulator has stand-ins of that name.
"""
