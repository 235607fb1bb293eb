#pragma once
// Chunks of packed datasets, compressed by several threads. HDF5 itself compresses one after the other.

#include <hdf5.h>

#include <array>
#include <cstddef>
#include <deque>
#include <future>
#include <vector>

namespace kvscope::trace {

/// Does what HDF5's filters shuffle and deflate do, and writes to the file in the order of add(): the file does not depend
/// on the number of threads. Nothing else may write to the datasets meanwhile.
class ChunkPacker {
 public:
  static constexpr int kLevel = 4;  // of deflate, as the datasets are created with

  ChunkPacker();
  /// `data`: a whole chunk of elements of `element_bytes`, what lies beyond the dataset's end included. H5Error.
  void add(hid_t dataset, const std::array<hsize_t, 3>& offset, std::size_t element_bytes, std::vector<std::byte> data);
  /// Waits for all; must be called. H5Error.
  void finish();

 private:
  struct Packed {
    std::vector<std::byte> data;
    unsigned left_out;  // bits of the filters that were not applied
  };
  struct Chunk {
    hid_t dataset;
    std::array<hsize_t, 3> offset;
    std::future<Packed> packed;
  };
  static Packed pack(const std::vector<std::byte>& data, std::size_t element_bytes);
  void write_first();

  std::size_t most_;  // chunks at work
  std::deque<Chunk> at_work_;
};

}  // namespace kvscope::trace
