"""The vendor's compiler on a CPU: what it makes of a generated module, and what it says about it.

    module --front--> TTIR --bridge--> linalg with distributed operations --compiler--> final HIVM --facts--> findings

`native` runs what the bridge makes on this machine. All of this knows generated modules and their entries in the
manifest, never plans or templates. `compilation` is the line above as code. The vendor's `triton` lives in processes of
its own (`frontend`), for the simulator has stand-ins of that name.
"""
