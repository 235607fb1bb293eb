#include "engine/decode/pinned_buffer.h"

#include <map>
#include <mutex>
#include <utility>

namespace kvscope::engine {
namespace {

struct Shelf {
  std::mutex mutex;
  std::multimap<std::size_t, std::unique_ptr<kernels::PinnedMemory>> by_bytes;
};

/// Never destroyed: at the process' end the device may be gone.
Shelf& shelf() {
  static Shelf& one = *new Shelf;
  return one;
}

}  // namespace

PinnedBuffer::PinnedBuffer(std::size_t bytes) : bytes_(bytes) {
  Shelf& here = shelf();
  const std::scoped_lock lock(here.mutex);
  if (const auto found = here.by_bytes.lower_bound(bytes); found != here.by_bytes.end()) {
    bytes_ = found->first;
    memory_ = std::move(found->second);
    here.by_bytes.erase(found);
    return;
  }
  memory_ = std::make_unique<kernels::PinnedMemory>(bytes);
}

PinnedBuffer::~PinnedBuffer() {
  Shelf& here = shelf();
  const std::scoped_lock lock(here.mutex);
  here.by_bytes.emplace(bytes_, std::move(memory_));
}

}  // namespace kvscope::engine
