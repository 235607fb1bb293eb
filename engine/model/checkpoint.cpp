#include "engine/model/checkpoint.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "engine/core/files/weights/mxfp4.h"
#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

at::ScalarType scalar_type(const SafetensorsFile& file, const std::string& name, const TensorEntry& entry) {
  switch (entry.type) {
    case TensorType::f32:
      return at::kFloat;
    case TensorType::f16:
      return at::kHalf;
    case TensorType::bf16:
      return at::kBFloat16;
    case TensorType::other:
      break;
  }
  throw Error({.file = file.path().string(), .where = name, .found = entry.type_name, .expected = "F32, F16 or BF16"});
}

at::Tensor read_entry(const SafetensorsFile& file, const std::string& name, const TensorEntry& entry) {
  at::Tensor out = at::empty(entry.shape, scalar_type(file, name, entry));
  file.read(entry, {static_cast<std::byte*>(out.data_ptr()), out.nbytes()});
  return out;
}

constexpr std::size_t kPartBytes = 8 << 20, kMaxThreads = 8;
constexpr std::chrono::milliseconds kProgressEvery(50);

/// Some elements of one tensor: where they are and where they go.
struct TensorPart {
  const SafetensorsFile* file;
  const TensorEntry* entry;
  std::uint64_t offset, bytes;  // in the tensor's bytes
  at::ScalarType type;          // of the file; bytes of packed numbers (mxfp4.h)
  at::Tensor to;                // [bytes / element size], or as many numbers as are packed
  TensorPlace scales = {};      // of packed numbers
};

constexpr std::uint64_t scales_of(std::uint64_t block_bytes) { return block_bytes / kPackedBytes; }
bool is_packed(const std::string& name) { return name.ends_with(kPackedSuffix); }

template <class From, class To>
void convert(const std::byte* from, const at::Tensor& to) {
  const From* x = reinterpret_cast<const From*>(from);
  To* y = to.data_ptr<To>();
  for (std::int64_t i = 0; i < to.numel(); ++i) y[i] = static_cast<To>(static_cast<float>(x[i]));
}

/// Not ATen's copy_, which would start a team of OpenMP threads for each of ours.
template <class From>
void convert(const std::byte* from, const at::Tensor& to) {
  to.scalar_type() == at::kFloat ? convert<From, float>(from, to) : convert<From, at::BFloat16>(from, to);
}

template <class To>
void unpack(const std::uint8_t* blocks, const std::uint8_t* scales, const at::Tensor& to) {
  float numbers[kPackedNumbers];
  To* y = to.data_ptr<To>();
  for (std::int64_t i = 0; i < to.numel() / kPackedNumbers; ++i, y += kPackedNumbers) {
    unpack_mxfp4(blocks + i * kPackedBytes, scales[i], numbers);
    for (int j = 0; j < kPackedNumbers; ++j) y[j] = static_cast<To>(numbers[j]);
  }
}

/// Blocks, then their scales.
void place_packed(const TensorPart& part, const std::byte* bytes) {
  const auto* blocks = reinterpret_cast<const std::uint8_t*>(bytes);
  const at::Tensor host = part.to.is_cpu() ? part.to : at::empty(part.to.sizes(), part.to.scalar_type());
  const bool is_float = host.scalar_type() == at::kFloat;
  (is_float ? unpack<float> : unpack<at::BFloat16>)(blocks, blocks + part.bytes, host);
  if (!part.to.is_cpu()) part.to.copy_(host);
}

void place(const TensorPart& part, std::byte* bytes) {
  if (part.scales.file != nullptr) return place_packed(part, bytes);
  if (part.to.is_cuda()) {
    const at::Tensor host = at::from_blob(bytes, {part.to.numel()}, part.type);
    // Another type is converted where that is fast; the sent part is one more part of device memory.
    part.to.copy_(part.type == part.to.scalar_type() ? host : host.to(part.to.device()));
  } else if (part.type == at::kFloat) {
    convert<float>(bytes, part.to);
  } else if (part.type == at::kHalf) {
    convert<at::Half>(bytes, part.to);
  } else {
    convert<at::BFloat16>(bytes, part.to);
  }
}

/// Threads that take part after part. Counters are read by the thread that waits.
class PartReaders {
 public:
  PartReaders(const std::vector<TensorPart>& parts, c10::Device device)
      : parts_(parts), device_(device), end_(parts.size()) {
    const std::size_t n = std::min(parts.size(), kMaxThreads);
    running_ = n;
    try {
      for (std::size_t i = 0; i < n; ++i) threads_.emplace_back([this] { work(); });
    } catch (...) {  // the machine has no thread left
      end_ = 0;
      throw;
    }
  }
  ~PartReaders() { end_ = 0; }  // the threads, declared last, are joined next

  void wait(const LoadProgress& progress, std::int64_t total) {
    std::unique_lock lock(mutex_);
    while (running_ > 0) {
      finished_.wait_for(lock, kProgressEvery, [this] { return running_ == 0; });
      const std::int64_t done = done_bytes_;
      lock.unlock();
      if (progress && done < total) progress(done, total);
      lock.lock();
    }
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    const c10::InferenceMode no_gradients;
    try {
      if (device_.is_cuda()) c10::impl::VirtualGuardImpl(device_.type()).setDevice(device_);
      // Pinned: the device fetches it at full speed.
      const auto options = at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda());
      const at::Tensor buffer = at::empty({static_cast<std::int64_t>(kPartBytes + scales_of(kPartBytes))}, options);
      for (std::size_t i = next_++; i < end_; i = next_++) work_on(i, buffer);
    } catch (...) {
      note_failure(0);
    }
    const std::lock_guard lock(mutex_);
    if (--running_ == 0) finished_.notify_all();
  }

  void work_on(std::size_t i, const at::Tensor& buffer) {
    const TensorPart& part = parts_[i];
    try {
      const bool as_is = part.to.is_cpu() && part.type == part.to.scalar_type();
      auto* bytes = static_cast<std::byte*>(as_is ? part.to.data_ptr() : buffer.data_ptr());
      part.file->read_part(*part.entry, part.offset, {bytes, part.bytes});
      if (part.scales.file != nullptr)
        part.scales.file->read_part(*part.scales.entry, scales_of(part.offset),
                                    {bytes + part.bytes, scales_of(part.bytes)});
      if (!as_is) place(part, bytes);
      const std::lock_guard lock(mutex_);
      done_bytes_ += static_cast<std::int64_t>(part.bytes);
    } catch (...) {
      note_failure(i);
    }
  }

  /// Parts are taken in order, so those before a failed one are being read, and say if they fail too.
  void note_failure(std::size_t part) {
    const std::lock_guard lock(mutex_);
    if (failure_ && part >= end_) return;
    end_ = part;
    failure_ = std::current_exception();
  }

  const std::vector<TensorPart>& parts_;
  const c10::Device device_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> end_;  // parts from here on are left unread: all are, or one failed, or nobody waits
  std::mutex mutex_;
  std::condition_variable finished_;
  std::size_t running_ = 0;
  std::int64_t done_bytes_ = 0;
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;
};

/// In parts of whole blocks.
void add_packed_parts(const WeightFiles& files, const TensorTarget& target, std::vector<TensorPart>& parts) {
  const auto [blocks, scales] = files.find_packed(target.name, target.shape);
  const std::uint64_t bytes = blocks.entry->end - blocks.entry->begin;
  const at::Tensor flat = target.to.view({-1});
  for (std::uint64_t offset = 0; offset < bytes; offset += kPartBytes) {
    const std::uint64_t length = std::min<std::uint64_t>(bytes - offset, kPartBytes);
    parts.push_back({blocks.file, blocks.entry, offset, length, at::kByte,
                     flat.narrow(0, static_cast<std::int64_t>(2 * offset), static_cast<std::int64_t>(2 * length)),
                     scales});
  }
}

std::vector<TensorPart> parts_of(const WeightFiles& files, const std::vector<TensorTarget>& targets) {
  std::vector<TensorPart> parts;
  for (const TensorTarget& target : targets) {
    if (is_packed(target.name)) {
      add_packed_parts(files, target, parts);
      continue;
    }
    const auto [file, entry] = files.find(target.name, target.shape);
    const at::ScalarType type = scalar_type(*file, target.name, *entry);
    const std::uint64_t element = c10::elementSize(type), bytes = entry->end - entry->begin;
    const at::Tensor flat = target.to.view({-1});
    for (std::uint64_t offset = 0; offset < bytes; offset += kPartBytes) {
      const std::uint64_t length = std::min<std::uint64_t>(bytes - offset, kPartBytes);
      parts.push_back(
          {file, entry, offset, length, type,
           flat.narrow(0, static_cast<std::int64_t>(offset / element), static_cast<std::int64_t>(length / element))});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const TensorPart& a, const TensorPart& b) {
    return a.file != b.file ? a.file->path() < b.file->path() : a.entry->begin + a.offset < b.entry->begin + b.offset;
  });
  return parts;
}

}  // namespace

at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& shape) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) {
    throw Error({.file = file.path().string(), .where = name, .found = "no such tensor", .expected = text_of(shape)});
  }
  if (found->second.shape != shape) {
    throw Error({.file = file.path().string(),
                 .where = name,
                 .found = "shape " + text_of(found->second.shape),
                 .expected = text_of(shape)});
  }
  return read_entry(file, name, found->second);
}

void CheckpointReader::check(const std::string& name, const std::vector<std::int64_t>& shape) const {
  if (is_packed(name)) {
    files_.find_packed(name, shape);
  } else {
    files_.find(name, shape);
  }
}

void CheckpointReader::read(const std::vector<TensorTarget>& targets) {
  if (targets.empty()) return;
  const std::vector<TensorPart> parts = parts_of(files_, targets);
  std::int64_t total = 0;
  for (const TensorPart& part : parts) total += static_cast<std::int64_t>(part.bytes);
  if (progress_) progress_(0, total);
  PartReaders(parts, targets.front().to.device()).wait(progress_, total);
  if (progress_) progress_(total, total);
}

}  // namespace kvscope::engine
