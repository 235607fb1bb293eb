#pragma once
// Marks a function that the host and the device share, in headers that both compilers read.

#ifdef __CUDACC__
#define KVSCOPE_HOST_DEVICE __host__ __device__
#else
#define KVSCOPE_HOST_DEVICE
#endif
