// A run as columns.

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/core/trace/run_block.h"
#include "engine/core/trace/run_derived.h"
#include "engine/core/trace/run_table.h"

namespace kvscope::trace {

static_assert(std::endian::native == std::endian::little, "columns are little-endian in memory and in files");

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// Rows of a series, padded to the run's tokens, and how long each was.
template <typename T>
void encode_series(RunBlock& block, const HeadSeries<T>& series, T padding, Dataset values_id, Dataset lengths_id) {
  const int layers = static_cast<int>(block.slice.count[Axis::layer]);
  const int heads = static_cast<int>(block.slice.count[Axis::kv_head]);
  const std::size_t tokens = block.slice.count[Axis::token];
  const std::string name = schema(values_id).path;
  std::vector<T> values(static_cast<std::size_t>(layers) * heads * tokens, padding);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(layers) * heads, -1);
  if (!series.empty()) {
    if (series.n_layers() != layers || series.n_kv_heads() != heads)
      malformed("", block.run, name,
                std::to_string(series.n_layers()) + " x " + std::to_string(series.n_kv_heads()) + " heads",
                std::to_string(layers) + " x " + std::to_string(heads), ExitCode::internal);
    for (int head = 0; head < layers * heads; ++head) {
      const auto& row = series.row(head / heads, head % heads);
      if (row.size() > tokens)
        malformed("", block.run, name, "a row of " + std::to_string(row.size()) + " tokens",
                  "at most " + std::to_string(tokens), ExitCode::internal);
      std::copy(row.begin(), row.end(), values.begin() + static_cast<std::size_t>(head) * tokens);
      lengths[head] = static_cast<std::int32_t>(row.size());
    }
  }
  block.set<T>(values_id, values);
  block.set<std::int32_t>(lengths_id, lengths);
}

void encode_tokens(RunBlock& block, const RunRecord& run, std::int64_t piece_begin) {
  const std::size_t n = run.ids.size();
  if (run.pieces.size() > n || run.logprobs.size() > n)
    malformed("", block.run, "tokens", "more pieces or logprobs than ids", "at most " + std::to_string(n),
              ExitCode::internal);
  block.set<std::int32_t>(Dataset::token_id, run.ids);
  std::vector<float> logprobs(run.logprobs);
  logprobs.resize(n, kNaN);
  block.set<float>(Dataset::token_logprob, logprobs);
  const auto& offsets = run.pieces.offsets();
  std::vector<std::int64_t> spans(2 * n, piece_begin + offsets.back());  // unknown pieces are empty
  for (std::size_t i = 0; i < run.pieces.size(); ++i) {
    spans[2 * i] = piece_begin + offsets[i];
    spans[2 * i + 1] = piece_begin + offsets[i + 1];
  }
  block.set<std::int64_t>(Dataset::piece_span, spans);
  block.set<char>(Dataset::piece_bytes, run.pieces.bytes());
  block.set(Dataset::n_pieces, static_cast<std::int32_t>(run.pieces.size()));
  block.set(Dataset::n_logprobs, static_cast<std::int32_t>(run.logprobs.size()));
}

void encode_texts(RunBlock& block, const RunRecord& run, std::int64_t begin) {
  std::string pool;
  for (const RunText& text : kRunTexts) {
    const auto first = begin + static_cast<std::int64_t>(pool.size());
    pool += text.get(run);
    block.set<std::int64_t>(text.span,
                            std::array<std::int64_t, 2>{first, begin + static_cast<std::int64_t>(pool.size())});
  }
  block.set<char>(Dataset::text, pool);
}

/// One member of all rows.
template <typename Row, typename T>
void encode_column(RunBlock& block, const std::vector<Row>& rows, Dataset id, T Row::*member) {
  std::vector<T> values;
  values.reserve(rows.size());
  for (const Row& row : rows) values.push_back(row.*member);
  block.set<T>(id, values);
}

/// `page_begin`: where the run's pages begin in the file.
void encode_reads(RunBlock& block, const std::vector<PageRead>& reads, std::int64_t page_begin) {
  visit_read_columns([&](Dataset id, auto member) { encode_column(block, reads, id, member); });
  std::vector<std::int32_t> pages;
  std::vector<std::int64_t> spans;
  for (const auto& read : reads) {
    spans.push_back(page_begin + static_cast<std::int64_t>(pages.size()));
    pages.insert(pages.end(), read.pages.begin(), read.pages.end());
    spans.push_back(page_begin + static_cast<std::int64_t>(pages.size()));
  }
  block.set<std::int64_t>(Dataset::page_span, spans);
  block.set<std::int32_t>(Dataset::page, pages);
}

/// A value for each head; `missing` for all if the run has none.
template <typename T>
void encode_heads(RunBlock& block, std::vector<T> values, T missing, Dataset id) {
  const auto heads = static_cast<std::size_t>(n_elements(schema(id), block.slice.count));
  if (!values.empty() && values.size() != heads)
    malformed("", block.run, schema(id).path, std::to_string(values.size()) + " values", std::to_string(heads),
              ExitCode::internal);
  values.resize(heads, missing);
  block.set<T>(id, values);
}

/// Rows as long as the run has tokens, padded; all of padding if it was not measured.
void encode_output_error(RunBlock& block, const OutputError& measured) {
  const Extents& count = block.slice.count;
  const OutputError none(static_cast<int>(count[Axis::layer]), static_cast<int>(count[Axis::kv_head]));
  const OutputError& error = measured.empty() ? none : measured;
  visit_output_error(error, [&](const HeadSeries<float>& series, Dataset id) {
    std::vector<float> values(static_cast<std::size_t>(n_elements(schema(id), count)), kNaN);
    auto to = values.begin();
    for (int layer = 0; layer < series.n_layers(); ++layer)
      for (int head = 0; head < series.n_kv_heads(); ++head, to += count[Axis::token])
        std::ranges::copy(series.row(layer, head), to);
    block.set<float>(id, values);
  });
  block.set(Dataset::output_error_queries, static_cast<std::int32_t>(measured.n_queries()));
}

}  // namespace

Extents counts_of(const RunRecord& run) {
  Extents count;
  count[Axis::run] = 1;
  count[Axis::token] = run.n_tokens();
  count[Axis::contest] = static_cast<std::int64_t>(run.contests.size());
  count[Axis::piece_byte] = static_cast<std::int64_t>(run.pieces.bytes().size());
  for (const RunText& text : kRunTexts) count[Axis::text_byte] += static_cast<std::int64_t>(text.get(run).size());
  count[Axis::read] = static_cast<std::int64_t>(run.reads.size());
  for (const PageRead& read : run.reads) count[Axis::page] += static_cast<std::int64_t>(read.pages.size());
  return count;
}

namespace {

void pass_counts(RunPlace& place, const Extents& count) {
  ++place.number;
  for (int axis = 0; axis < kAxes; ++axis)
    if (grows(static_cast<Axis>(axis))) place.filled.size[axis] += count.size[axis];
}

}  // namespace

void RunPlace::pass(const RunRecord& run) { pass_counts(*this, counts_of(run)); }

void RunPlace::pass(const RunBlock& block) { pass_counts(*this, block.slice.count); }

RunBlock encode_run(const RunRecord& run, const Extents& filled, int number) {
  return encode_run(run, derive(run), filled, number);
}

RunBlock encode_run(const RunRecord& run, const DerivedColumns& derived, const Extents& filled, int number) {
  RunBlock block;
  block.run = number;
  block.slice.begin = filled;
  block.slice.begin[Axis::layer] = block.slice.begin[Axis::kv_head] = block.slice.begin[Axis::pair] = 0;
  auto& count = block.slice.count = counts_of(run);
  count[Axis::layer] = run.model.n_layers;
  count[Axis::kv_head] = run.model.n_kv_heads;

  encode_tokens(block, run, filled[Axis::piece_byte]);
  encode_texts(block, run, filled[Axis::text_byte]);
  visit_scalars(run, [&]<typename T>(Dataset id, const T& member) { block.set(id, static_cast<Stored<T>>(member)); });
  block.set(Dataset::status, static_cast<std::uint8_t>(run.status));
  block.set(Dataset::recall_known, static_cast<std::uint8_t>(!run.recall_so_far.empty()));
  encode_heads(block, run.recall_so_far, kNaN, Dataset::recall_so_far);
  visit_head_columns([&](Dataset id, auto member, auto alike) {
    std::vector<decltype(alike)> values;
    for (const HeadRule& head : run.heads) values.push_back(as_number(head.*member));
    encode_heads(block, std::move(values), alike, id);
  });
  visit_series(run, [&](const auto& series, Dataset values, Dataset lengths, auto mark) {
    encode_series(block, series, mark, values, lengths);
  });
  encode_output_error(block, run.output_error);
  visit_contest_columns([&](Dataset id, auto member) { encode_column(block, run.contests, id, member); });
  encode_reads(block, run.reads, filled[Axis::page]);
  encode_derived(block, derived);
  for (const auto& [span, axis] : kAxisSpans)
    block.set<std::int64_t>(span, std::array<std::int64_t, 2>{filled[axis], filled[axis] + count[axis]});
  block.set(Dataset::checksum, checksum(block, run.model));
  return block;
}

}  // namespace kvscope::trace
