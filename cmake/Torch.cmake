# kvscope_torch: libtorch_cpu and libc10 as one imported target. find_package(Torch) is not used: it fails at configure
# where there is no GPU and drags in every CUDA library. libtorch_cuda is opened at run time if there is a device.
set(Torch_ROOT "" CACHE PATH "Folder of LibTorch (with include/ and lib/), e.g. site-packages/torch")
find_path(TORCH_INCLUDE_DIR ATen/ATen.h HINTS ${Torch_ROOT}/include REQUIRED)
get_filename_component(TORCH_HOME ${TORCH_INCLUDE_DIR} DIRECTORY)
add_library(kvscope_torch INTERFACE)
target_include_directories(kvscope_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIR} ${TORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_libraries(kvscope_torch INTERFACE ${TORCH_HOME}/lib/libtorch_cpu.so ${TORCH_HOME}/lib/libc10.so)
if(NOT KVSCOPE_STATIC)  # in a wheel the engine looks beside itself (Install.cmake), not where it was built
  target_link_options(kvscope_torch INTERFACE -Wl,-rpath,${TORCH_HOME}/lib)
endif()
