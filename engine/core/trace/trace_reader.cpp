#include "engine/core/trace/trace_reader.h"

#include <algorithm>

#include "engine/core/support/error.h"

namespace kvscope::trace {

namespace {

using Span = std::array<std::int64_t, 2>;

void check_span(const ValidTrace& valid, Dataset id, Axis axis, int run, Span span) {
  if (span[0] >= 0 && span[1] >= span[0] && span[1] <= valid.extents[axis]) return;
  throw Error({.file = valid.file,
               .where = "run " + std::to_string(run) + ", " + schema(id).path,
               .found = std::to_string(span[0]) + " to " + std::to_string(span[1]),
               .expected = "within 0 to " + std::to_string(valid.extents[axis])});
}

Span read_span(const ValidTrace& valid, Dataset id, Axis axis, int run) {
  Extents begin{{}}, count;
  begin[Axis::run] = run;
  count[Axis::run] = 1;
  Span span{};
  read_part(valid.trace, id, begin, count, span.data());
  check_span(valid, id, axis, run, span);
  return span;
}

/// What HDF5 refuses while a run is read, as an Error of the file.
template <typename Read>
auto reading(const ValidTrace& valid, int run, Read read) {
  try {
    return read();
  } catch (const H5Error& error) {
    throw Error({.file = valid.file,
                 .where = "run " + std::to_string(run) + ", " + error.action(),
                 .found = error.reason(),
                 .expected = "a whole KVScope trace"});
  }
}

Slice slice_of(const ValidTrace& valid, int run) {
  Slice slice;
  slice.begin[Axis::run] = run;
  slice.count[Axis::run] = 1;
  slice.count[Axis::layer] = valid.extents[Axis::layer];
  slice.count[Axis::kv_head] = valid.extents[Axis::kv_head];
  const auto own = [&](Axis axis, Span span) {
    slice.begin[axis] = span[0];
    slice.count[axis] = span[1] - span[0];
  };
  for (const auto& [span, axis] : kAxisSpans) own(axis, read_span(valid, span, axis, run));
  // The texts stand one after the other, so the first begin and the last end hold them all.
  const Span first = read_span(valid, kTextSpans.front(), Axis::text_byte, run);
  const Span last = read_span(valid, kTextSpans.back(), Axis::text_byte, run);
  own(Axis::text_byte, {first[0], std::max(first[0], last[1])});
  return slice;
}

void check_run_index(const ValidTrace& valid, int run) {
  if (run >= 0 && run < valid.info.n_runs) return;
  throw Error({.code = ExitCode::usage,
               .file = valid.file,
               .found = "there is no run " + std::to_string(run),
               .expected = valid.info.n_runs == 0 ? "a trace with runs; this one was stopped before its first"
                                                  : "0 to " + std::to_string(valid.info.n_runs - 1)});
}

void check_run_size(const ValidTrace& valid, const RunBlock& block) {
  double bytes = 0;
  for (const auto& dataset : kSchema) {
    double part = size_of(dataset.type);
    for (int d = 0; d < dataset.rank(); ++d) part *= static_cast<double>(block.slice.count[dataset.axes[d]]);
    bytes += part;
  }
  if (bytes > static_cast<double>(kMaxRunBytes))
    throw Error({.file = valid.file, .where = "run " + std::to_string(block.run), .found = "more than 2 GiB of data"});
}

/// `begin` on the axes of the shard that holds the run's virtual rows. Throws Error if they are not all in that shard.
Extents begin_in_shard(const ValidTrace& merged, const RunBlock& block, int shard) {
  Extents begin = block.slice.begin;
  for (const Axis axis : kShardAxes) {
    begin[axis] -= merged.shards.offset(shard, axis);
    if (begin[axis] < 0 || begin[axis] + block.slice.count[axis] > merged.shards.filled[shard][axis])
      throw Error({.file = merged.file,
                   .where = "run " + std::to_string(block.run) + ", axis " + kAxisNames[static_cast<int>(axis)],
                   .found = "rows outside its shard",
                   .expected = "all in " + merged.shards.names[shard]});
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
  for (const auto& dataset : kSchema) {
    auto& column = block[dataset.id];
    column.resize(n_elements(dataset, block.slice.count) * size_of(dataset.type));
    const bool elsewhere = merged && is_in_shards(dataset);
    read_part((elsewhere ? source : valid).trace, dataset.id, elsewhere ? source_begin : block.slice.begin,
              block.slice.count, column.data());
  }
}

}  // namespace

RunBlock read_run(const ValidTrace& valid, int run_index) {
  check_run_index(valid, run_index);
  return reading(valid, run_index, [&] {
    RunBlock block;
    block.run = run_index;
    block.slice = slice_of(valid, run_index);
    check_run_size(valid, block);
    read_columns(valid, block);
    return block;
  });
}

Slice run_slice(const ValidTrace& valid, int run_index) {
  check_run_index(valid, run_index);
  return reading(valid, run_index, [&] { return slice_of(valid, run_index); });
}

Extents filled_of(const ValidTrace& valid) {
  Extents filled;
  filled[Axis::run] = valid.info.n_runs;
  filled[Axis::layer] = valid.extents[Axis::layer];
  filled[Axis::kv_head] = valid.extents[Axis::kv_head];
  Extents begin{{}}, count;
  count[Axis::run] = valid.info.n_runs;
  std::vector<Span> spans(static_cast<std::size_t>(valid.info.n_runs));
  const auto measure = [&](Dataset id, Axis axis) {
    reading(valid, 0, [&] { read_part(valid.trace, id, begin, count, spans.data()); });
    for (int run = 0; run < valid.info.n_runs; ++run) {
      check_span(valid, id, axis, run, spans[run]);
      filled[axis] = std::max(filled[axis], spans[run][1]);
    }
  };
  for (const auto& [span, axis] : kAxisSpans) measure(span, axis);
  measure(kTextSpans.back(), Axis::text_byte);
  return filled;
}

}  // namespace kvscope::trace

namespace kvscope {

TraceInfo inspect_trace(const std::filesystem::path& path) { return trace::open_valid(path).info; }

RunRecord load_trace(const std::filesystem::path& path, int run_index) {
  const auto valid = trace::open_valid(path);
  return trace::decode_run(trace::read_run(valid, run_index), valid.info.model, valid.file);
}

}  // namespace kvscope
