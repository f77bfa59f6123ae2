"""Host code on the emulated machine: stand-ins for triton, torch_npu, torch.distributed, shmem and time.

process      the host of each rank: environment, device, current stream -> imports, output (what it prints)
triton       kernels and their launch -> programs (what the cores execute), tuning (autotune, heuristics)
torch_npu    streams and events
collectives  torch.distributed -> process_groups, rendezvous (where hosts meet), tensor_checks
shmem        aclshmem: symmetric memory
tensors      device tensors, and torch operations on them -> memories (what they touch, as observers are told)
clock        the time module, on virtual time
"""
