#pragma once
// For the few functions that host and device must share word for word.

#ifdef __CUDACC__
#define KVSCOPE_HOST_DEVICE __host__ __device__
#else
#define KVSCOPE_HOST_DEVICE
#endif
