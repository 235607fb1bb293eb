#pragma once
// Memory that a version of an operation can read, each its own.

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "kernels/device.h"
#include "kernels/operation.h"
#include "tests/kernels/device_buffer.h"
#include "tests/support/skip.h"

namespace kvscope::test {

using kernels::Backend;

/// In a [cuda] case: if (skip_without_device()) return;
inline bool skip_without_device() {
  if (kernels::device_count() > 0) return false;
  skip("no CUDA device");
  return true;
}

/// Whether compute-sanitizer runs the test, under which a launch takes 30 ms.
inline const bool kShort = std::getenv("KVSCOPE_SANITIZER") != nullptr;

/// Under compute-sanitizer, whether a case is left out: one in `n` of those that a process generates is checked. No GENERATE may
/// have a multiple of `n` values, or some of them never come up.
inline bool left_out(int n) {
  static int n_cases = 0;
  return kShort && n_cases++ % n != 0;
}

/// Memory for one back end. Every put() is an allocation of its own and of exactly that size.
class Memory {
 public:
  explicit Memory(Backend backend) : backend_(backend) {}

  template <typename T>
  T* put(const std::vector<T>& values) {
    const std::size_t n_bytes = values.size() * sizeof(T);
    if (backend_ == Backend::cuda) {
      auto buffer = std::make_unique<DeviceBuffer>(n_bytes);
      buffer->upload(values.data());
      auto* data = static_cast<T*>(buffer->data());
      device_[data] = std::move(buffer);
      return data;
    }
    auto block = std::make_unique<std::byte[]>(n_bytes);
    if (n_bytes > 0) std::memcpy(block.get(), values.data(), n_bytes);
    auto* data = reinterpret_cast<T*>(block.get());
    host_[data] = {std::move(block), n_bytes};
    return data;
  }

  /// What lies now at an address that put() gave.
  template <typename T>
  std::vector<T> get(const T* data) const {
    if (backend_ == Backend::cuda) {
      const DeviceBuffer& buffer = *device_.at(data);
      std::vector<T> values(buffer.size() / sizeof(T));
      buffer.download(values.data());
      return values;
    }
    std::vector<T> values(host_.at(data).n_bytes / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), data, host_.at(data).n_bytes);
    return values;
  }

 private:
  struct HostBlock {
    std::unique_ptr<std::byte[]> data;
    std::size_t n_bytes;
  };
  Backend backend_;
  std::map<const void*, HostBlock> host_;
  std::map<const void*, std::unique_ptr<DeviceBuffer>> device_;
};

}  // namespace kvscope::test
