"""The lowered kernel, run natively on this machine.

    linalg with distributed operations --lowering--> calls of an emulator --build--> a shared library
         --programs--> programs of emulated ranks, in a process of their own (__main__) --trials--> findings

What is executed is what the vendor's front end and adapter made of the kernel: its arithmetic of 32 bits, its masks,
its conversions. The hosts run the module's own self-check, on the simulator's machine: tensors that lie in all ways
that a launch allows, launches back to back on one workspace, and a reference in float32.

What is modelled: every program of every rank waits for every other one, slots and barriers work as the library says,
and a program can be overtaken wherever it calls the library, as the chosen schedule has it. A program of a mix kernel
runs three times, for the AIC and for each AIV: `al.scope` is a condition on the core type, `al.sync_block_*` counts per
event and AIV, and what stands outside of scopes all three execute.

What is not: the vendor's passes after linalg, with their pipes, flags and double buffers; the order in which a device
makes stores visible; accesses outside of a tensor; the grouping of sums in a GEMM tile.
"""
