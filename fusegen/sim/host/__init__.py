"""Host code on the emulated machine: stand-ins for triton, torch_npu, torch.distributed, shmem and time.

process      the host of each rank: environment, device, current stream
triton       kernels and their launch -> programs (what the cores execute)
torch_npu    streams and events
collectives  torch.distributed
shmem        aclshmem: symmetric memory
tensors      device tensors, and torch operations on them -> memories (what they touch, as observers are told)
clock        the time module, on virtual time
"""
