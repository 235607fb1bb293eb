#include "engine/core/support/refuse.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_spans.h"

namespace kvscope::trace {

namespace {

/// The file that holds the virtual rows of a merged trace: valid by itself, with its own data, of the same model and
/// version, and with all the rows that the merged one counts on. Throws Error that names it.
ValidTrace open_shard(const ValidTrace& merged, int shard) {
  const auto path = std::filesystem::path(merged.file).parent_path() / merged.shards.names[shard];
  ValidTrace source = open_valid(path);
  const auto fail = [&](std::string found, std::string expected) {
    refuse(path.string(), "", std::move(found), std::move(expected),
           "merge the shards again: " + merged.file + " has changed since");
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
             "rows outside its shard", "all in " + escape_for_terminal(merged.shards.names[shard]));
  }
  return begin;
}

// Shards stay open as long as runs are read: more than a child may have files, and few enough for its memory.
constexpr std::size_t kOpenShards = 16;

/// A bomb is a small file that says it is large. Recorded numbers hardly compress; rows of an unbounded cache and of
/// scores that nobody made compress to nothing, and these are 200,000 tokens of 300 heads.
std::uint64_t most_held(const ValidTrace& source) {
  return std::max<std::uint64_t>(std::uint64_t{512} << 20, 8 * source.file_size);
}

}  // namespace

double run_bytes(const RunBlock& block) {
  double bytes = 0;
  for (const auto& dataset : datasets_of(block.version)) {
    double part = size_of(dataset.type);
    for (int d = 0; d < dataset.rank(); ++d) part *= static_cast<double>(block.slice.count[dataset.axes[d]]);
    bytes += part;
  }
  return bytes;
}

RunReader::RunReader(const std::filesystem::path& path) : valid_(open_valid(path)) {}

const ValidTrace& RunReader::shard(int number) {
  const auto open = shards_.find(number);
  if (open != shards_.end()) return open->second;
  if (shards_.size() >= kOpenShards) shards_.clear();
  return shards_.emplace(number, open_shard(valid_, number)).first->second;
}

RunBlock RunReader::find(int run_index) {
  RunBlock block;
  block.slice = run_slice(valid_, run_index);
  block.run = run_index;
  block.version = valid_.info.version;
  if (run_bytes(block) > static_cast<double>(kMaxRunBytes))
    throw Error({.file = valid_.file, .where = "run " + std::to_string(run_index), .found = "more than 2 GiB of data"});
  source_ = nullptr;
  held_ = 0;
  if (valid_.shards.names.empty()) return block;
  const int number = valid_.shards.of_run[run_index];
  source_begin_ = begin_in_shard(valid_, block, number);
  source_ = &shard(number);
  return block;
}

void RunReader::read(RunBlock& block, const DatasetSchema& dataset) {
  if (is_padding(block, dataset.id)) return;
  reading(valid_, block.run, [&] {
    auto& column = block[dataset.id];
    const std::uint64_t most = most_held(source_ ? *source_ : valid_);
    held_ += static_cast<std::uint64_t>(n_elements(dataset, block.slice.count)) * size_of(dataset.type);
    if (held_ > most)
      refuse(valid_.file, "run " + std::to_string(block.run),
             "more than " + std::to_string(most >> 20) + " MiB of data", "less data in a file of this size");
    column.resize(n_elements(dataset, block.slice.count) * size_of(dataset.type));
    const bool elsewhere = source_ && is_in_shards(dataset);
    read_part((elsewhere ? *source_ : valid_).trace, dataset.id, elsewhere ? source_begin_ : block.slice.begin,
              block.slice.count, column.data());
  });
}

}  // namespace kvscope::trace

namespace kvscope {

TraceInfo inspect_trace(const std::filesystem::path& path) { return TraceReader("", path).info(); }

RunRecord load_trace(const std::filesystem::path& path, int run_index) { return TraceReader("", path).load(run_index); }

}  // namespace kvscope
