"""The device language: triton.language, triton_dist.language and libshmem_device on the emulated machine."""
