#include "engine/core/trace/chunk_packer.h"

#include <zlib.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "engine/core/trace/h5_handle.h"

namespace kvscope::trace {
namespace {

/// First bytes of all elements, then second bytes, and so on: what H5Pset_shuffle does.
std::vector<std::byte> shuffled(const std::vector<std::byte>& data, std::size_t element_bytes) {
  const std::size_t n = data.size() / element_bytes;
  std::vector<std::byte> out(data.size());
  for (std::size_t byte = 0; byte < element_bytes; ++byte)
    for (std::size_t i = 0; i < n; ++i) out[byte * n + i] = data[i * element_bytes + byte];
  return out;
}

}  // namespace

ChunkPacker::ChunkPacker() : most_(std::max(1u, std::thread::hardware_concurrency())) {}

/// As H5Pset_deflate: a chunk that compression does not make smaller is stored as it is.
ChunkPacker::Packed ChunkPacker::pack(const std::vector<std::byte>& data, std::size_t element_bytes) {
  const bool shuffles = element_bytes > 1;
  std::vector<std::byte> plain = shuffles ? shuffled(data, element_bytes) : data;
  std::vector<std::byte> packed(plain.size());
  uLongf size = static_cast<uLongf>(packed.size());
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                               reinterpret_cast<const Bytef*>(plain.data()), static_cast<uLong>(plain.size()), kLevel);
  if (status != Z_OK)
    return {std::move(plain), shuffles ? 2u : 1u};  // deflate is the filter after shuffle, if that is there
  packed.resize(size);
  return {std::move(packed), 0};
}

void ChunkPacker::add(hid_t dataset, const std::array<hsize_t, 3>& offset, std::size_t element_bytes,
                      std::vector<std::byte> data) {
  if (at_work_.size() == most_) write_first();
  at_work_.push_back({dataset, offset, std::async(std::launch::async, [element_bytes, data = std::move(data)] {
                        return pack(data, element_bytes);
                      })});
}

void ChunkPacker::finish() {
  while (!at_work_.empty()) write_first();
}

void ChunkPacker::write_first() {
  Chunk chunk = std::move(at_work_.front());
  at_work_.pop_front();
  const Packed packed = chunk.packed.get();
  h5_check(H5Dwrite_chunk(chunk.dataset, H5P_DEFAULT, packed.left_out, chunk.offset.data(), packed.data.size(),
                          packed.data.data()),
           "write a chunk");
}

}  // namespace kvscope::trace
