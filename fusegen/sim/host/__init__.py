"""Host code on the emulated machine: stand-ins for triton, torch_npu, torch.distributed, shmem and time."""
