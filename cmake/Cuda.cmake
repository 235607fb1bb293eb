# nvcc: the one that ./setup found (.deps/paths.cmake), CUDACXX, or the PATH's. The kernels are compiled for every machine,
# with a GPU or without: machine code for Ampere (80) and Hopper (90), and PTX of the latter for what comes after.
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
# CMake 3.25 does not know nvcc's flag for C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
