# nvcc: the one that ./setup found (.deps/paths.cmake), CUDACXX, or the PATH's. The kernels are compiled for every machine,
# with a GPU or without. Machine code for Ampere (80, which 86 and 89 run too) and Hopper (90), and PTX of the latter for what
# comes after. ./setup --wheel asks for each architecture by itself.
set(KVSCOPE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "Architectures that the CUDA kernels are compiled for")
set(CMAKE_CUDA_ARCHITECTURES ${KVSCOPE_CUDA_ARCHITECTURES})
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
# CMake 3.25 does not know nvcc's flag for C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
