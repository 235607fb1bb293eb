// From the layout that survives to the layout that is small: same schema, trimmed, chunked, compressed, summarised.

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/trace/chunk_packer.h"
#include "engine/core/trace/trace_live.h"

namespace kvscope::trace {

namespace {

/// Rows are copied in blocks of about this many bytes.
constexpr std::int64_t kBlockBytes = 1 << 22;

/// To a dataset that is not compressed.
void copy_dataset(const OpenTrace& from, const OpenTrace& to, const DatasetSchema& dataset, const Extents& filled) {
  Axis growing = Axis::none;
  for (int d = 0; d < dataset.rank(); ++d)
    if (grows(dataset.axes[d])) growing = dataset.axes[d];
  Extents begin{{}}, count = filled;
  count[growing] = 1;
  const bool by_layer = dataset.axes[0] == Axis::layer;
  if (by_layer) count[Axis::layer] = 1;
  const std::int64_t row_bytes = n_elements(dataset, count) * size_of(dataset.type);
  const std::int64_t step = std::max<std::int64_t>(1, kBlockBytes / row_bytes);

  std::vector<std::byte> buffer;
  for (std::int64_t layer = 0; layer < (by_layer ? filled[Axis::layer] : 1); ++layer) {
    if (by_layer) begin[Axis::layer] = layer;
    for (std::int64_t row = 0; row < filled[growing]; row += step) {
      begin[growing] = row;
      count[growing] = std::min(step, filled[growing] - row);
      buffer.resize(count[growing] * row_bytes);
      read_part(from, dataset.id, begin, count, buffer.data());
      write_part(to, dataset.id, begin, count, buffer.data());
    }
  }
}

/// To a dataset of chunks, each of which is compressed by itself.
void pack_dataset(const OpenTrace& from, const OpenTrace& to, const DatasetSchema& dataset, const Extents& filled,
                  ChunkPacker& packer) {
  const std::array<hsize_t, 3> chunk = chunk_of(dataset, filled);
  const std::size_t element = size_of(dataset.type);
  std::size_t outer = 1, inner = element;  // parts of a chunk, and bytes of a row in each
  int growing = -1;
  for (int d = 0; d < dataset.rank(); ++d) {
    if (grows(dataset.axes[d]))
      growing = d;
    else
      (growing < 0 ? outer : inner) *= chunk[d];
  }
  const std::size_t rows_of_chunk = chunk[growing];
  const bool by_layer = dataset.axes[0] == Axis::layer;
  const Axis axis = dataset.axes[growing];
  Extents begin{{}}, count = filled;
  if (by_layer) count[Axis::layer] = 1;
  for (std::int64_t layer = 0; layer < (by_layer ? filled[Axis::layer] : 1); ++layer) {
    if (by_layer) begin[Axis::layer] = layer;
    for (std::int64_t row = 0; row < filled[axis]; row += static_cast<std::int64_t>(rows_of_chunk)) {
      begin[axis] = row;
      count[axis] = std::min(static_cast<std::int64_t>(rows_of_chunk), filled[axis] - row);
      const auto n = static_cast<std::size_t>(count[axis]);
      std::vector<std::byte> data(outer * n * inner);
      read_part(from, dataset.id, begin, count, data.data());
      if (n < rows_of_chunk) {  // the last one is stored whole
        std::vector<std::byte> whole(outer * rows_of_chunk * inner);
        for (std::size_t i = 0; i < outer; ++i)
          std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(i * n * inner), n * inner,
                      whole.begin() + static_cast<std::ptrdiff_t>(i * rows_of_chunk * inner));
        data = std::move(whole);
      }
      std::array<hsize_t, 3> offset{};
      for (int d = 0; d < dataset.rank(); ++d) offset[d] = static_cast<hsize_t>(begin[dataset.axes[d]]);
      packer.add(to.datasets[static_cast<int>(dataset.id)], offset, element, std::move(data));
    }
  }
}

void pack_rows(const OpenTrace& from, const OpenTrace& to, const Extents& filled) {
  ChunkPacker packer;
  for (const auto& dataset : datasets_of(to.version)) {
    if (chunk_of(dataset, filled)[0] == 0)
      copy_dataset(from, to, dataset, filled);
    else
      pack_dataset(from, to, dataset, filled, packer);
  }
  packer.finish();
}

/// Mean over the runs of each head's density, runs without one left out; NaN if all are.
std::vector<float> mean_density(const OpenTrace& from, const Extents& filled) {
  const std::int64_t heads = filled[Axis::layer] * filled[Axis::kv_head];
  std::vector<double> sum(heads, 0);
  std::vector<int> n(heads, 0);
  std::vector<float> density(heads);
  Extents begin{{}}, count = filled;
  count[Axis::run] = 1;
  for (std::int64_t run = 0; run < filled[Axis::run]; ++run) {
    begin[Axis::run] = run;
    read_part(from, Dataset::density, begin, count, density.data());
    for (std::int64_t head = 0; head < heads; ++head)
      if (!std::isnan(density[head])) {
        sum[head] += density[head];
        ++n[head];
      }
  }
  for (std::int64_t head = 0; head < heads; ++head)
    density[head] = n[head] ? static_cast<float>(sum[head] / n[head]) : std::numeric_limits<float>::quiet_NaN();
  return density;
}

}  // namespace

void write_summary(const OpenTrace& trace, const Extents& filled) {
  const std::vector<float> density = mean_density(trace, filled);
  H5Id entry = create_group(trace.file, "summary");
  write_attribute(entry, "NX_class", "NXentry");
  write_attribute(entry, "default", "density");
  H5Id data = create_group(entry, "density");
  write_attribute(data, "NX_class", "NXdata");
  write_attribute(data, "signal", "density");
  write_attribute(data, "axes", std::vector<std::string>{"layer", "kv_head"});
  write_attribute(data, "layer_indices", 0);
  write_attribute(data, "kv_head_indices", 1);
  write_text_dataset(data, "title", "Density at the last position, mean over runs");
  for (const char* axis : {"layer", "kv_head"})
    h5_check(H5Lcreate_hard(trace.file, (std::string("heads/") + axis).c_str(), data, axis, H5P_DEFAULT, H5P_DEFAULT),
             "link an axis");
  const std::vector<hsize_t> dims = {static_cast<hsize_t>(filled[Axis::layer]),
                                     static_cast<hsize_t>(filled[Axis::kv_head])};
  const H5Id dataset = write_dataset(data, "density", Type::f32, dims, density.data());
  write_attribute(dataset, "long_name", "density");
  write_attribute(dataset, "meaning",
                  "mean over the runs of |kept, t <= q - window| / |{t <= q - window}| at the last q");
}

void copy_rows(const OpenTrace& from, const OpenTrace& to, const Extents& filled) {
  for (const auto& dataset : datasets_of(to.version)) copy_dataset(from, to, dataset, filled);
}

void write_packed(const OpenTrace& from, const Extents& filled, const Heading& heading, const std::string& path) {
  OpenTrace to = create_trace(path, heading, filled, Storage::packed);
  try {
    pack_rows(from, to, filled);
    write_summary(to, filled);
    write_committed(to, filled[Axis::run]);
    flush_to_disk(to.file);
  } catch (...) {
    to.leak();
    throw;
  }
}

}  // namespace kvscope::trace
