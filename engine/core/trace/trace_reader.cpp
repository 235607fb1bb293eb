#include "engine/core/trace/trace_reader.h"

#include "engine/core/support/error.h"

namespace kvscope::trace {

namespace {

using Span = std::array<std::int64_t, 2>;

Span read_span(const ValidTrace& valid, Dataset id, Axis axis, int run) {
  Extents begin{{}}, count;
  begin[Axis::run] = run;
  count[Axis::run] = 1;
  Span span{};
  read_part(valid.trace, id, begin, count, span.data());
  if (span[0] < 0 || span[1] < span[0] || span[1] > valid.extents[axis])
    throw Error({.file = valid.file,
                 .where = "run " + std::to_string(run) + ", " + schema(id).path,
                 .found = std::to_string(span[0]) + " to " + std::to_string(span[1]),
                 .expected = "within 0 to " + std::to_string(valid.extents[axis])});
  return span;
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
  own(Axis::token, read_span(valid, Dataset::token_span, Axis::token, run));
  own(Axis::contest, read_span(valid, Dataset::contest_span, Axis::contest, run));
  own(Axis::piece_byte, read_span(valid, Dataset::piece_bytes_span, Axis::piece_byte, run));
  // The texts stand one after the other, so the first begin and the last end hold them all.
  const Span first = read_span(valid, kTextSpans.front(), Axis::text_byte, run);
  const Span last = read_span(valid, kTextSpans.back(), Axis::text_byte, run);
  own(Axis::text_byte, {first[0], std::max(first[0], last[1])});
  return slice;
}

}  // namespace

RunBlock read_run(const ValidTrace& valid, int run_index) {
  if (run_index < 0 || run_index >= valid.info.n_runs)
    throw Error({.code = ExitCode::usage,
                 .file = valid.file,
                 .found = "there is no run " + std::to_string(run_index),
                 .expected = valid.info.n_runs == 0 ? "a trace with runs; this one was stopped before its first"
                                                    : "0 to " + std::to_string(valid.info.n_runs - 1)});
  try {
    RunBlock block;
    block.run = run_index;
    block.slice = slice_of(valid, run_index);
    double bytes = 0;
    for (const auto& dataset : kSchema) {
      double part = size_of(dataset.type);
      for (int d = 0; d < dataset.rank(); ++d) part *= static_cast<double>(block.slice.count[dataset.axes[d]]);
      bytes += part;
    }
    if (bytes > static_cast<double>(kMaxRunBytes))
      throw Error(
          {.file = valid.file, .where = "run " + std::to_string(run_index), .found = "more than 2 GiB of data"});
    for (const auto& dataset : kSchema) {
      auto& column = block[dataset.id];
      column.resize(n_elements(dataset, block.slice.count) * size_of(dataset.type));
      read_part(valid.trace, dataset.id, block.slice.begin, block.slice.count, column.data());
    }
    return block;
  } catch (const H5Error& error) {
    throw Error({.file = valid.file,
                 .where = "run " + std::to_string(run_index) + ", " + error.action(),
                 .found = error.reason(),
                 .expected = "a whole KVScope trace"});
  }
}

}  // namespace kvscope::trace

namespace kvscope {

TraceInfo inspect_trace(const std::filesystem::path& path) { return trace::open_valid(path).info; }

RunRecord load_trace(const std::filesystem::path& path, int run_index) {
  const auto valid = trace::open_valid(path);
  return trace::decode_run(trace::read_run(valid, run_index), valid.info.model, valid.file);
}

}  // namespace kvscope
