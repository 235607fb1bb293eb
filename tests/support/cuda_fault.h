#pragma once
// What a test and fail_cuda.cpp, in the process that it watches, say to each other: one page of a file.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <stdexcept>

namespace kvscope::test {

struct CudaFault {
  static constexpr const char* kVariable = "KVSCOPE_CUDA_FAULT";  // the file's name
  std::atomic<std::uint64_t> limit;                               // bytes that LibTorch may have; 0: no limit
  std::atomic<std::uint64_t> live, peak;                          // that it has, had at most
  std::atomic<std::uint64_t> refused;                             // allocations
  enum Trap : std::uint32_t { none, wanted, launched };
  std::atomic<std::uint32_t> trap;  // a kernel that destroys the CUDA context
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "two processes share it");

/// The page of that file, made if it is not there. Mapped as long as the process lives.
inline CudaFault& cuda_fault(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* page = MAP_FAILED;
  if (fd >= 0 && ::ftruncate(fd, sizeof(CudaFault)) == 0)
    page = ::mmap(nullptr, sizeof(CudaFault), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd >= 0) ::close(fd);
  if (page == MAP_FAILED) throw std::runtime_error("no page of " + path.string());
  return *static_cast<CudaFault*>(page);  // a file of zeros is one without a fault
}

}  // namespace kvscope::test
