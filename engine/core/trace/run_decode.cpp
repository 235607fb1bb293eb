// Columns as a run. They may come from anywhere: nothing is believed. How they are stored is checked here, what they
// say by check_run().

#include <algorithm>
#include <cmath>

#include "engine/core/record/check.h"
#include "engine/core/support/text.h"
#include "engine/core/trace/run_block.h"
#include "engine/core/trace/run_derived.h"
#include "engine/core/trace/run_table.h"
#include "engine/core/trace/run_versions.h"

namespace kvscope::trace {

namespace {

/// Where a member of the record stands in a file; contests and reads are groups of their own names.
std::string path_of(std::string member) {
  if (member == "ids") return schema(Dataset::token_id).path;
  if (member == "pieces") return schema(Dataset::n_pieces).path;
  if (member == "logprobs") return schema(Dataset::token_logprob).path;
  if (member == "scores") return schema(Dataset::score).path;
  if (member == "changes") return schema(Dataset::changes_span).path;
  // What a policy derives has some names of the sampler's, which are longer in a file.
  for (const char* prefix : {"/sampling_", "/"})
    for (const auto& dataset : kSchema)
      if (std::string_view(dataset.path).ends_with(prefix + member)) return dataset.path;
  if (member == "layer_damage") return schema(Dataset::layer_damage).path;
  if (member == "layer_output") return schema(Dataset::layer_output).path;
  return member;
}

class Decoder {
 public:
  /// `spent`: the block, if its large columns are no longer needed when they have been read.
  Decoder(const RunBlock& block, const ModelInfo& model, const std::string& file, RunBlock* spent = nullptr)
      : block_(block), spent_(spent), model_(model), file_(file), n_(block.slice.count[Axis::token]) {}

  RunRecord decode() {
    check_columns();
    run_.model = model_;
    decode_scalars();
    decode_tokens();
    // Of older files what the policy says; what was asked may say "as the heads have it".
    if (block_.version >= 7) decode_heads();
    decode_texts();
    if (block_.version < 7) decode_heads();
    visit_series(run_, [&](auto& series, Dataset values, Dataset lengths, auto) {
      if (schema(values).is_in(block_.version)) decode_series(series, values, lengths);
      if (spent_) std::vector<std::byte>().swap((*spent_)[values]);
    });
    decode_output_error();
    visit_contest_columns([&](Dataset id, auto member) { decode_column(run_.contests, id, member); });
    decode_reads();
    check();
    check_derived(block_, run_, file_);
    return std::move(run_);
  }

 private:
  [[noreturn]] void fail(Dataset id, std::string found, std::string expected) const {
    malformed(file_, block_.run, schema(id).path, std::move(found), std::move(expected));
  }
  /// How many of the run's tokens have it.
  std::int32_t count(Dataset id) const {
    const auto value = block_.value<std::int32_t>(id);
    if (value < 0 || value > n_) fail(id, std::to_string(value), "0 to " + std::to_string(n_));
    return value;
  }
  bool flag(Dataset id) const {
    const auto value = block_.value<std::uint8_t>(id);
    if (value > 1) fail(id, std::to_string(value), "0 or 1");
    return value == 1;
  }

  void check_columns() const {
    const auto& count = block_.slice.count;
    if (count[Axis::run] != 1 || count[Axis::pair] != 2 || count[Axis::layer] != model_.n_layers ||
        count[Axis::kv_head] != model_.n_kv_heads || n_ > INT32_MAX - 2)
      malformed(file_, block_.run, "shape", "not the model's", "one run of the model");
    for (const auto& dataset : kSchema) {
      const bool known = dataset.is_in(block_.version);
      const auto bytes = known ? n_elements(dataset, block_.slice.count) * size_of(dataset.type) : 0;
      if (block_[dataset.id].empty() && is_padding(block_, dataset.id)) continue;
      if (static_cast<std::int64_t>(block_[dataset.id].size()) != bytes)
        fail(dataset.id, std::to_string(block_[dataset.id].size()) + " bytes", std::to_string(bytes));
    }
    if (block_.value<std::uint64_t>(Dataset::checksum) != checksum(block_, model_))
      fail(Dataset::checksum, "the data do not match their checksum", "data as they were written");
  }

  void decode_scalars() {
    visit_scalars(run_, [&]<typename T>(Dataset id, T& member) {
      if (!schema(id).is_in(block_.version)) return;
      if constexpr (std::is_same_v<T, int>) {
        member = block_.value<std::int32_t>(id);
      } else if constexpr (std::is_same_v<T, bool>) {
        member = flag(id);
      } else {
        member = block_.value<T>(id);
      }
    });
    const auto status = block_.value<std::uint8_t>(Dataset::status);
    if (status > static_cast<int>(RunStatus::failed)) fail(Dataset::status, std::to_string(status), "0 to 3");
    run_.status = static_cast<RunStatus>(status);
    const auto recall = block_.values<float>(Dataset::recall_so_far);
    if (flag(Dataset::recall_known)) run_.recall_so_far.assign(recall.begin(), recall.end());
  }

  /// The rules of heads. Before version 7 a file has columns for what differs alone, each by itself.
  void decode_heads() {
    int n_columns = 0, n_known = 0;
    visit_head_columns([&](Dataset id, auto member, auto alike) {
      if (!schema(id).is_in(block_.version)) return;
      ++n_columns;
      const auto values = block_.values<decltype(alike)>(id);
      const auto is_alike = [&](auto value) {
        if constexpr (std::is_same_v<decltype(alike), float>) {
          return std::isnan(value);  // as `alike` is
        } else {
          return value == alike;
        }
      };
      if (std::ranges::all_of(values, is_alike)) return;
      if (std::ranges::any_of(values, is_alike))
        fail(id, number_text(alike), "a value for each head, or " + number_text(alike) + " for all heads");
      ++n_known;
      if (run_.heads.empty()) run_.heads.assign(values.size(), block_.version < 7 ? rule_before_7(run_) : HeadRule{});
      for (std::size_t head = 0; head < values.size(); ++head)
        run_.heads[head].*member = static_cast<std::decay_t<decltype(HeadRule{}.*member)>>(values[head]);
    });
    if (block_.version < 7) {
      for (HeadRule& head : run_.heads)
        if (head.is_local()) head.top_k = 0;
    } else if (n_known != 0 && n_known != n_columns) {
      fail(Dataset::head_top_k, std::to_string(n_known) + " of the columns of heads with values",
           "values in all of them, or in none");
    }
  }

  void decode_tokens() {
    const auto ids = block_.values<std::int32_t>(Dataset::token_id);
    run_.ids.assign(ids.begin(), ids.end());

    const auto logprobs = block_.values<float>(Dataset::token_logprob);
    run_.logprobs.assign(logprobs.begin(), logprobs.begin() + count(Dataset::n_logprobs));

    const auto spans = block_.values<std::int64_t>(Dataset::piece_span);
    const auto bytes = block_.values<char>(Dataset::piece_bytes);
    const int n_pieces = count(Dataset::n_pieces);
    std::int64_t end_of_last = 0;
    for (int i = 0; i < n_pieces; ++i) {
      const std::int64_t base = block_.slice.begin[Axis::piece_byte];
      // Unsigned, because a hostile span may be anything: 0 <= begin == last end <= end <= size in two comparisons.
      const auto begin = static_cast<std::uint64_t>(spans[2 * i]) - base;
      const auto end = static_cast<std::uint64_t>(spans[2 * i + 1]) - base;
      if (begin != static_cast<std::uint64_t>(end_of_last) || end < begin || end > bytes.size())
        fail(Dataset::piece_span, "a span out of order at token " + std::to_string(i), "one piece after the other");
      run_.pieces.push_back({bytes.data() + begin, static_cast<std::size_t>(end - begin)});
      end_of_last = static_cast<std::int64_t>(end);
    }
  }

  void decode_texts() {
    const auto pool = block_.values<char>(Dataset::text);
    const auto base = static_cast<std::uint64_t>(block_.slice.begin[Axis::text_byte]);
    std::uint64_t end_of_last = 0;
    for (const RunText& text : kRunTexts) {
      if (!schema(text.span).is_in(block_.version)) continue;
      const auto span = block_.values<std::int64_t>(text.span);
      const auto begin = static_cast<std::uint64_t>(span[0]) - base, end = static_cast<std::uint64_t>(span[1]) - base;
      if (begin != end_of_last || end < begin || end > pool.size())
        fail(text.span, "a span outside the run's texts or out of order", "one text after the other");
      end_of_last = end;
      try {
        if (text.set != nullptr) text.set(run_, {pool.data() + begin, end - begin});
      } catch (const Error& error) {
        // A text that is not of the form has only what was found; one that names a policy says itself what is wrong.
        const auto& parts = error.parts();
        parts.file.empty() ? fail(text.span, parts.found, parts.expected)
                           : fail(text.span, error.what(), text.expected);
      }
    }
  }

  /// Once decode_texts() has seen its span.
  std::string_view text_at(Dataset id) const {
    const auto span = block_.values<std::int64_t>(id);
    const auto pool = block_.values<char>(Dataset::text);
    return {pool.data() + (span[0] - block_.slice.begin[Axis::text_byte]), static_cast<std::size_t>(span[1] - span[0])};
  }

  template <typename T>
  void decode_series(HeadSeries<T>& series, Dataset values_id, Dataset lengths_id) {
    const auto lengths = block_.values<std::int32_t>(lengths_id);
    const auto values = block_.values<T>(values_id);
    const bool absent = lengths[0] == -1;
    for (const auto length : lengths)
      if (absent ? length != -1 : length < 0 || length > n_)
        fail(lengths_id, std::to_string(length), "0 to " + std::to_string(n_) + ", or -1 for all heads");
    if (absent) return;
    series = HeadSeries<T>(model_.n_layers, model_.n_kv_heads);
    for (std::size_t head = 0; head < lengths.size(); ++head) {
      const auto row = values.begin() + static_cast<std::ptrdiff_t>(head * n_);
      series.row(static_cast<int>(head) / model_.n_kv_heads, static_cast<int>(head) % model_.n_kv_heads)
          .assign(row, row + lengths[head]);
    }
  }

  void decode_output_error() {
    if (schema(Dataset::output_error_queries).since > block_.version) return;
    const std::int32_t n = count(Dataset::output_error_queries);
    if (n == 0) return;
    run_.output_error = OutputError(model_.n_layers, model_.n_kv_heads);
    visit_output_error(run_.output_error, [&](HeadSeries<float>& series, Dataset id) {
      auto from = block_.values<float>(id).begin();
      for (int layer = 0; layer < series.n_layers(); ++layer)
        for (int head = 0; head < series.n_kv_heads(); ++head, from += n_)
          series.row(layer, head).assign(from, from + n);
    });
  }

  /// One member of all rows.
  template <typename Row, typename T>
  void decode_column(std::vector<Row>& rows, Dataset id, T Row::*member) const {
    const auto values = block_.values<T>(id);
    rows.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) rows[i].*member = values[i];
  }

  void decode_reads() {
    visit_read_columns([&](Dataset id, auto member) { decode_column(run_.reads, id, member); });
    const auto spans = block_.values<std::int64_t>(Dataset::page_span);
    const auto pages = block_.values<std::int32_t>(Dataset::page);
    std::uint64_t end_of_last = 0;
    for (std::size_t i = 0; i < run_.reads.size(); ++i) {
      PageRead& read = run_.reads[i];
      const auto base = static_cast<std::uint64_t>(block_.slice.begin[Axis::page]);
      const auto begin = static_cast<std::uint64_t>(spans[2 * i]) - base;
      const auto end = static_cast<std::uint64_t>(spans[2 * i + 1]) - base;
      if (begin != end_of_last || end < begin || end > pages.size())
        fail(Dataset::page_span, "a span out of order at read " + std::to_string(i), "one read after the other");
      read.pages.assign(pages.begin() + begin, pages.begin() + end);
      end_of_last = end;
    }
  }

  /// What the columns say must be a run. Rows of one that failed may be shorter than it is; readers know no such rows.
  void check() {
    try {
      upgrade(run_, block_.version, text_at(Dataset::command_line_span));
      if (run_.status == RunStatus::failed) fill_rows(run_);
      check_run(run_);
    } catch (const RunFault& fault) {
      malformed(file_, block_.run, path_of(fault.parts().where), fault.parts().found, fault.parts().expected);
    } catch (const Error& fault) {  // of a policy that cannot be over so many positions
      malformed(file_, block_.run, schema(Dataset::policy_span).path, fault.what(), "one that fits the run");
    }
  }

  const RunBlock& block_;
  RunBlock* spent_;
  const ModelInfo& model_;
  const std::string& file_;
  const std::int64_t n_;
  RunRecord run_;
};

}  // namespace

RunRecord decode_run(const RunBlock& block, const ModelInfo& model, const std::string& file) {
  return Decoder(block, model, file).decode();
}
RunRecord decode_run(RunBlock&& block, const ModelInfo& model, const std::string& file) {
  return Decoder(block, model, file, &block).decode();
}

}  // namespace kvscope::trace
