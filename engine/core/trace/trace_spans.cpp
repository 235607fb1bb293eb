#include "engine/core/trace/trace_spans.h"

#include <algorithm>

#include "engine/core/support/refuse.h"

namespace kvscope::trace {

namespace {

using Span = std::array<std::int64_t, 2>;

void check_span(const ValidTrace& valid, Dataset id, Axis axis, int run, Span span) {
  if (span[0] >= 0 && span[1] >= span[0] && span[1] <= valid.extents[axis]) return;
  refuse(valid.file, "run " + std::to_string(run) + ", " + schema(id).path,
         std::to_string(span[0]) + " to " + std::to_string(span[1]),
         "within 0 to " + std::to_string(valid.extents[axis]));
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
  const Span first = read_span(valid, kFirstText, Axis::text_byte, run);
  const Span last = read_span(valid, kLastText, Axis::text_byte, run);
  own(Axis::text_byte, {first[0], std::max(first[0], last[1])});
  return slice;
}

void check_run_index(const ValidTrace& valid, int run) {
  if (run >= 0 && run < valid.info.n_runs) return;
  throw Error({.code = ExitCode::usage,
               .file = valid.file,
               .found = "there is no run " + std::to_string(run),
               .expected = valid.info.n_runs == 0
                               ? "a trace with runs; this one was stopped before its first run was complete"
                               : "0 to " + std::to_string(valid.info.n_runs - 1)});
}

}  // namespace

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
  measure(kLastText, Axis::text_byte);
  return filled;
}

}  // namespace kvscope::trace
