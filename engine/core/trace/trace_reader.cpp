#include "engine/core/support/refuse.h"
#include "engine/core/trace/trace_spans.h"

namespace kvscope::trace {

namespace {

void check_run_size(const ValidTrace& valid, const RunBlock& block) {
  double bytes = 0;
  for (const auto& dataset : datasets_of(block.version)) {
    double part = size_of(dataset.type);
    for (int d = 0; d < dataset.rank(); ++d) part *= static_cast<double>(block.slice.count[dataset.axes[d]]);
    bytes += part;
  }
  if (bytes > static_cast<double>(kMaxRunBytes))
    throw Error({.file = valid.file, .where = "run " + std::to_string(block.run), .found = "more than 2 GiB of data"});
}

/// The file that holds the virtual rows of a merged trace: valid by itself, with its own data, of the same model and
/// version, and with all the rows that the merged one counts on. Throws Error that names it.
ValidTrace open_shard(const ValidTrace& merged, int shard) {
  const auto path = std::filesystem::path(merged.file).parent_path() / merged.shards.names[shard];
  ValidTrace source = open_valid(path);
  const auto fail = [&](std::string found, std::string expected) {
    refuse(path.string(), "", std::move(found), std::move(expected),
           "merge the shards again: " + merged.file + " was made of other files");
  };
  if (!source.info.shards.empty()) fail("a merged trace", "a shard with its own data");
  if (const auto difference = model_difference(source.info.model, merged.info.model))
    fail("a trace of a model with " + difference->what + " " + difference->a, difference->b);
  if (source.info.version != merged.info.version)
    fail("a trace of version " + std::to_string(source.info.version), std::to_string(merged.info.version));
  const Extents filled = filled_of(source);
  for (const Axis axis : kFilledAxes)
    if (filled[axis] < merged.shards.filled[shard][axis])
      fail(std::to_string(filled[axis]) + " " + kAxisNames[static_cast<int>(axis)] + "s",
           "at least " + std::to_string(merged.shards.filled[shard][axis]));
  return source;
}

/// `begin` on the axes of the shard that holds the run's virtual rows. Throws Error if they are not all in that shard.
Extents begin_in_shard(const ValidTrace& merged, const RunBlock& block, int shard) {
  Extents begin = block.slice.begin;
  for (const Axis axis : kShardAxes) {
    begin[axis] -= merged.shards.offset(shard, axis);
    if (begin[axis] < 0 || begin[axis] + block.slice.count[axis] > merged.shards.filled[shard][axis])
      refuse(merged.file, "run " + std::to_string(block.run) + ", axis " + kAxisNames[static_cast<int>(axis)],
             "rows outside its shard", "all in " + merged.shards.names[shard]);
  }
  return begin;
}

void read_columns(const ValidTrace& valid, RunBlock& block) {
  const bool merged = !valid.shards.names.empty();
  ValidTrace source;
  Extents source_begin;
  if (merged) {
    const int shard = valid.shards.of_run[block.run];
    source_begin = begin_in_shard(valid, block, shard);
    source = open_shard(valid, shard);
  }
  for (const auto& dataset : datasets_of(block.version)) {
    auto& column = block[dataset.id];
    column.resize(n_elements(dataset, block.slice.count) * size_of(dataset.type));
    const bool elsewhere = merged && is_in_shards(dataset);
    read_part((elsewhere ? source : valid).trace, dataset.id, elsewhere ? source_begin : block.slice.begin,
              block.slice.count, column.data());
  }
}

}  // namespace

RunBlock read_run(const ValidTrace& valid, int run_index) {
  const Slice slice = run_slice(valid, run_index);
  return reading(valid, run_index, [&] {
    RunBlock block;
    block.run = run_index;
    block.version = valid.info.version;
    block.slice = slice;
    check_run_size(valid, block);
    read_columns(valid, block);
    return block;
  });
}

}  // namespace kvscope::trace

namespace kvscope {

TraceInfo inspect_trace(const std::filesystem::path& path) { return trace::open_valid(path).info; }

RunRecord load_trace(const std::filesystem::path& path, int run_index) {
  const auto valid = trace::open_valid(path);
  return trace::decode_run(trace::read_run(valid, run_index), valid.info.model, valid.file);
}

}  // namespace kvscope
