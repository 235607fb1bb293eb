#include "engine/core/trace/run_block.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/policy/policy_json.h"
#include "engine/core/study/retention_metrics.h"
#include "engine/core/support/error.h"

namespace kvscope::trace {

static_assert(std::endian::native == std::endian::little, "columns are little-endian in memory and in files");

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

[[noreturn]] void malformed(const std::string& file, int run, std::string where, std::string found,
                            std::string expected, ExitCode code = ExitCode::bad_input) {
  throw Error({.code = code,
               .file = file,
               .where = "run " + std::to_string(run) + ", " + where,
               .found = std::move(found),
               .expected = std::move(expected)});
}

// --- record -> columns -----------------------------------------------------------------------------------------------

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

std::string changes_text(const RunRecord& run) {
  std::string text;
  for (const auto& change : run.changes) text += std::to_string(change.q) + "\t" + change.policy.to_string() + "\n";
  return text;
}

void encode_texts(RunBlock& block, const RunRecord& run, std::int64_t begin) {
  const std::array<std::string, kTextSpans.size()> texts = {
      run.prompt_text,   run.policy.to_string(), run.message,
      run.command_line,  run.started_utc,        policy_json(run.policy, run.n_positions).dump(),
      changes_text(run), run.oracle.to_string(), run.scorer.text};
  std::string pool;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::array<std::int64_t, 2> span = {begin + static_cast<std::int64_t>(pool.size()),
                                              begin + static_cast<std::int64_t>(pool.size() + texts[i].size())};
    block.set<std::int64_t>(kTextSpans[i], span);
    pool += texts[i];
  }
  block.set<char>(Dataset::text, pool);
  block.slice.count[Axis::text_byte] = static_cast<std::int64_t>(pool.size());
}

void encode_contests(RunBlock& block, const std::vector<Contest>& contests) {
  const auto column = [&]<typename T>(Dataset id, T Contest::*member) {
    std::vector<T> values;
    values.reserve(contests.size());
    for (const auto& contest : contests) values.push_back(contest.*member);
    block.set<T>(id, values);
  };
  column(Dataset::contest_q, &Contest::q);
  column(Dataset::contest_layer, &Contest::layer);
  column(Dataset::contest_kv_head, &Contest::kv_head);
  column(Dataset::contest_newcomer, &Contest::newcomer);
  column(Dataset::contest_boundary, &Contest::boundary);
  column(Dataset::contest_newcomer_effective, &Contest::newcomer_effective);
  column(Dataset::contest_boundary_effective, &Contest::boundary_effective);
  column(Dataset::contest_evicted, &Contest::evicted);
}

/// `page_begin`: where the run's pages begin in the file.
void encode_reads(RunBlock& block, const std::vector<PageRead>& reads, std::int64_t page_begin) {
  std::vector<std::int32_t> q, pages;
  std::vector<std::int16_t> layer, kv_head;
  std::vector<std::int64_t> spans;
  for (const auto& read : reads) {
    q.push_back(read.q);
    layer.push_back(read.layer);
    kv_head.push_back(read.kv_head);
    spans.push_back(page_begin + static_cast<std::int64_t>(pages.size()));
    pages.insert(pages.end(), read.pages.begin(), read.pages.end());
    spans.push_back(page_begin + static_cast<std::int64_t>(pages.size()));
  }
  block.set<std::int32_t>(Dataset::read_q, q);
  block.set<std::int16_t>(Dataset::read_layer, layer);
  block.set<std::int16_t>(Dataset::read_kv_head, kv_head);
  block.set<std::int64_t>(Dataset::page_span, spans);
  block.set<std::int32_t>(Dataset::page, pages);
  block.slice.count[Axis::read] = static_cast<std::int64_t>(reads.size());
  block.slice.count[Axis::page] = static_cast<std::int64_t>(pages.size());
}

void encode_scalars(RunBlock& block, const RunRecord& run) {
  block.set(Dataset::status, static_cast<std::uint8_t>(run.status));
  block.set<std::int32_t>(Dataset::prompt_index, run.prompt_index);
  block.set<std::int32_t>(Dataset::n_positions, run.n_positions);
  block.set<std::int32_t>(Dataset::prompt_len, run.prompt_len);
  block.set<std::int32_t>(Dataset::oracle_horizon, run.oracle_horizon);
  block.set<std::int32_t>(Dataset::n_queries, run.n_queries);
  block.set(Dataset::temperature, run.sampling.temperature);
  block.set<std::int32_t>(Dataset::sampling_top_k, run.sampling.top_k);
  block.set(Dataset::sampling_top_p, run.sampling.top_p);
  block.set(Dataset::sampling_min_p, run.sampling.min_p);
  block.set(Dataset::repetition_penalty, run.sampling.repetition_penalty);
  block.set(Dataset::seed, run.sampling.seed);
  block.set(Dataset::load_s, run.timings.load_s);
  block.set(Dataset::prefill_s, run.timings.prefill_s);
  block.set(Dataset::decode_s, run.timings.decode_s);
  block.set<std::int32_t>(Dataset::decode_steps, run.timings.decode_steps);
  block.set(Dataset::instrumented, static_cast<std::uint8_t>(run.timings.instrumented));

  const std::size_t heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  auto recall = run.recall_so_far;
  if (!recall.empty() && recall.size() != heads)
    malformed("", block.run, "recall_so_far", std::to_string(recall.size()) + " values", std::to_string(heads),
              ExitCode::internal);
  block.set(Dataset::recall_known, static_cast<std::uint8_t>(!recall.empty()));
  recall.resize(heads, kNaN);
  block.set<float>(Dataset::recall_so_far, recall);
}

/// Whether every query of the run can be asked about every token before it. Runs that failed may have shorter rows.
bool has_lifetimes(const RunRecord& run) {
  if (run.ids.empty() || run.evict_at.empty()) return false;
  for (int layer = 0; layer < run.evict_at.n_layers(); ++layer)
    for (int head = 0; head < run.evict_at.n_kv_heads(); ++head)
      if (run.evict_at.row(layer, head).size() < run.ids.size()) return false;
  return run.queries() <= run.n_tokens();
}

/// What follows from the rest, so that a reader in another language need not parse policies.
void encode_derived(RunBlock& block, const RunRecord& run) {
  RetentionGeometry geometry{.n_sink = -1, .window = -1, .top_k = -1, .log_gamma = 0, .decay_stride = 1};
  std::vector<float> density(run.model.n_layers * static_cast<std::size_t>(run.model.n_kv_heads), kNaN);
  std::vector<float> recall = density, mass_recall = density;
  try {
    geometry = run.geometry();
    if (has_lifetimes(run)) {
      density = head_metric(run, Metric::density, run.queries() - 1).values;
      recall = head_metric(run, Metric::recall, run.queries() - 1).values;
      mass_recall = head_metric(run, Metric::mass_recall, run.queries() - 1).values;
    }
  } catch (const Error&) {
    // A run may have failed for this very reason (a budget smaller than its window): it is stored all the same.
  }
  block.set<std::int32_t>(Dataset::n_sink, geometry.n_sink);
  block.set<std::int32_t>(Dataset::window, geometry.window);
  block.set<std::int32_t>(Dataset::top_k, geometry.top_k);
  block.set(Dataset::log_gamma, geometry.log_gamma);
  block.set<std::int32_t>(Dataset::decay_stride, geometry.decay_stride);
  block.set<float>(Dataset::density, density);
  block.set<float>(Dataset::recall, recall);
  block.set<float>(Dataset::mass_recall, mass_recall);
}

// --- columns -> record -----------------------------------------------------------------------------------------------

/// Files of version 1 have the sentence alone: "kvpop mlstm, delay 64".
ScorerInfo scorer_of(const std::string& text) {
  ScorerInfo scorer{.kind = text.substr(0, text.find(',')), .text = text};
  std::replace(scorer.kind.begin(), scorer.kind.end(), ' ', '_');
  constexpr std::string_view kWord = "delay ";
  int delay = 0;
  if (const std::size_t at = text.find(kWord); at != std::string::npos) {
    const char* begin = text.data() + at + kWord.size();
    if (std::from_chars(begin, text.data() + text.size(), delay).ec == std::errc() && delay >= 0) scorer.delay = delay;
  }
  return scorer;
}

class Decoder {
 public:
  Decoder(const RunBlock& block, const ModelInfo& model, const std::string& file)
      : block_(block), model_(model), file_(file), n_(block.slice.count[Axis::token]) {}

  RunRecord decode() {
    check_columns();
    run_.model = model_;
    decode_scalars();
    decode_tokens();
    decode_texts();
    decode_series(run_.evict_at, Dataset::evict_at, Dataset::evict_at_length);
    decode_series(run_.scores, Dataset::score, Dataset::score_length);
    decode_series(run_.future_mass, Dataset::future_mass, Dataset::future_mass_length);
    decode_series(run_.oracle_evict_at, Dataset::oracle_evict_at, Dataset::oracle_evict_at_length);
    check_lifetimes(run_.evict_at, Dataset::evict_at);
    check_lifetimes(run_.oracle_evict_at, Dataset::oracle_evict_at);
    decode_contests();
    decode_reads();
    return std::move(run_);
  }

 private:
  [[noreturn]] void fail(Dataset id, std::string found, std::string expected) const {
    malformed(file_, block_.run, schema(id).path, std::move(found), std::move(expected));
  }
  std::int32_t count(Dataset id, std::int64_t max) const {
    const auto value = block_.value<std::int32_t>(id);
    if (value < 0 || value > max) fail(id, std::to_string(value), "0 to " + std::to_string(max));
    return value;
  }

  void check_columns() const {
    const auto& count = block_.slice.count;
    if (count[Axis::run] != 1 || count[Axis::pair] != 2 || count[Axis::layer] != model_.n_layers ||
        count[Axis::kv_head] != model_.n_kv_heads || n_ > INT32_MAX - 2)
      malformed(file_, block_.run, "shape", "another than the model's", "one run of the model");
    for (const auto& dataset : kSchema) {
      const auto bytes = n_elements(dataset, block_.slice.count) * size_of(dataset.type);
      if (static_cast<std::int64_t>(block_[dataset.id].size()) != bytes)
        fail(dataset.id, std::to_string(block_[dataset.id].size()) + " bytes", std::to_string(bytes));
    }
    if (block_.value<std::uint64_t>(Dataset::checksum) != checksum(block_, model_))
      fail(Dataset::checksum, "the data do not match their checksum", "data as they were written");
  }

  void decode_scalars() {
    const auto status = block_.value<std::uint8_t>(Dataset::status);
    if (status > static_cast<int>(RunStatus::failed)) fail(Dataset::status, std::to_string(status), "0 to 3");
    run_.status = static_cast<RunStatus>(status);
    run_.prompt_index = block_.value<std::int32_t>(Dataset::prompt_index);
    if (run_.prompt_index < -1) fail(Dataset::prompt_index, std::to_string(run_.prompt_index), "-1 or more");
    run_.n_positions = count(Dataset::n_positions, INT32_MAX);
    run_.prompt_len = count(Dataset::prompt_len, n_);
    run_.oracle_horizon = count(Dataset::oracle_horizon, n_);
    run_.n_queries = count(Dataset::n_queries, n_);
    run_.sampling.temperature = block_.value<double>(Dataset::temperature);
    run_.sampling.top_k = count(Dataset::sampling_top_k, INT32_MAX);
    run_.sampling.top_p = block_.value<double>(Dataset::sampling_top_p);
    run_.sampling.min_p = block_.value<double>(Dataset::sampling_min_p);
    run_.sampling.repetition_penalty = block_.value<double>(Dataset::repetition_penalty);
    run_.sampling.seed = block_.value<std::uint64_t>(Dataset::seed);
    run_.timings.load_s = block_.value<double>(Dataset::load_s);
    run_.timings.prefill_s = block_.value<double>(Dataset::prefill_s);
    run_.timings.decode_s = block_.value<double>(Dataset::decode_s);
    run_.timings.decode_steps = count(Dataset::decode_steps, INT32_MAX);
    const auto instrumented = block_.value<std::uint8_t>(Dataset::instrumented);
    if (instrumented > 1) fail(Dataset::instrumented, std::to_string(instrumented), "0 or 1");
    run_.timings.instrumented = instrumented == 1;
    const auto recall = block_.values<float>(Dataset::recall_so_far);
    const auto recall_known = block_.value<std::uint8_t>(Dataset::recall_known);
    if (recall_known > 1) fail(Dataset::recall_known, std::to_string(recall_known), "0 or 1");
    if (recall_known) run_.recall_so_far.assign(recall.begin(), recall.end());
  }

  void decode_tokens() {
    const auto ids = block_.values<std::int32_t>(Dataset::token_id);
    const std::int32_t end = model_.vocab_size > 0 ? model_.vocab_size : INT32_MAX;
    for (const auto id : ids)
      if (id < 0 || id >= end) fail(Dataset::token_id, std::to_string(id), "0 to " + std::to_string(end - 1));
    run_.ids.assign(ids.begin(), ids.end());

    const auto logprobs = block_.values<float>(Dataset::token_logprob);
    run_.logprobs.assign(logprobs.begin(), logprobs.begin() + count(Dataset::n_logprobs, n_));

    const auto spans = block_.values<std::int64_t>(Dataset::piece_span);
    const auto bytes = block_.values<char>(Dataset::piece_bytes);
    const int n_pieces = count(Dataset::n_pieces, n_);
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
    std::array<std::string, kTextSpans.size()> texts;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto span = block_.values<std::int64_t>(kTextSpans[i]);
      const auto base = static_cast<std::uint64_t>(block_.slice.begin[Axis::text_byte]);
      const auto begin = static_cast<std::uint64_t>(span[0]) - base, end = static_cast<std::uint64_t>(span[1]) - base;
      if (end < begin || end > pool.size()) fail(kTextSpans[i], "a span outside the run's texts", "within them");
      texts[i].assign(pool.data() + begin, end - begin);
    }
    run_.prompt_text = texts[0];
    try {
      run_.policy = PolicySpec::parse(texts[1]);
    } catch (const Error& error) {
      fail(Dataset::policy_span, error.what(), "a policy of this version");
    }
    run_.message = texts[2];
    run_.command_line = texts[3];
    run_.started_utc = texts[4];
    decode_changes(texts[6]);
    try {
      run_.oracle = OracleSpec::parse(texts[7]);
    } catch (const Error& error) {
      fail(Dataset::oracle_span, error.what(), "an oracle of this version");
    }
    run_.scorer = scorer_of(texts[8]);
  }

  void decode_changes(std::string_view rest) {
    std::int32_t last_q = 0;
    while (!rest.empty()) {
      const auto line = rest.substr(0, rest.find('\n'));
      PolicyChange change;
      const char* end = line.data() + line.size();
      const auto [tab, failure] = std::from_chars(line.data(), end, change.q);
      if (line.size() == rest.size() || failure != std::errc() || tab == end || *tab != '\t')
        fail(Dataset::changes_span, in_quotes(line), "lines of query, tab and policy");
      if (change.q < last_q || change.q > run_.n_positions)
        fail(Dataset::changes_span, "query " + std::to_string(change.q),
             std::to_string(last_q) + " to " + std::to_string(run_.n_positions));
      try {
        change.policy = PolicySpec::parse({tab + 1, static_cast<std::size_t>(end - tab - 1)});
      } catch (const Error& error) {
        fail(Dataset::changes_span, error.what(), "policies of this version");
      }
      last_q = change.q;
      run_.changes.push_back(std::move(change));
      rest.remove_prefix(line.size() + 1);
    }
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

  void check_lifetimes(const LifetimeMap& map, Dataset id) const {
    if (map.empty()) return;
    for (int layer = 0; layer < map.n_layers(); ++layer)
      for (int head = 0; head < map.n_kv_heads(); ++head)
        for (const auto value : map.row(layer, head))
          if (value < 0) fail(id, std::to_string(value), "a query position or a mark");
  }

  void decode_contests() {
    const auto q = block_.values<std::int32_t>(Dataset::contest_q);
    const auto layer = block_.values<std::int16_t>(Dataset::contest_layer);
    const auto kv_head = block_.values<std::int16_t>(Dataset::contest_kv_head);
    const auto newcomer = block_.values<std::int32_t>(Dataset::contest_newcomer);
    const auto boundary = block_.values<std::int32_t>(Dataset::contest_boundary);
    const auto newcomer_effective = block_.values<float>(Dataset::contest_newcomer_effective);
    const auto boundary_effective = block_.values<float>(Dataset::contest_boundary_effective);
    const auto evicted = block_.values<std::int32_t>(Dataset::contest_evicted);
    const auto token = [&](Dataset id, std::int32_t value) {
      if (value < -1 || value >= n_) fail(id, std::to_string(value), "-1 to " + std::to_string(n_ - 1));
      return value;
    };
    std::vector<std::int32_t> last(static_cast<std::size_t>(model_.n_layers) * model_.n_kv_heads, -1);
    run_.contests.reserve(q.size());
    for (std::size_t i = 0; i < q.size(); ++i) {
      check_head(Dataset::contest_layer, layer[i], Dataset::contest_kv_head, kv_head[i]);
      auto& last_q = last[static_cast<std::size_t>(layer[i]) * model_.n_kv_heads + kv_head[i]];
      if (q[i] < 0 || q[i] >= n_ || q[i] < last_q)
        fail(Dataset::contest_q, std::to_string(q[i]) + " after " + std::to_string(last_q),
             "ascending positions of the run");
      last_q = q[i];
      run_.contests.push_back({q[i], layer[i], kv_head[i], token(Dataset::contest_newcomer, newcomer[i]),
                               token(Dataset::contest_boundary, boundary[i]), newcomer_effective[i],
                               boundary_effective[i], token(Dataset::contest_evicted, evicted[i])});
    }
  }

  void decode_reads() {
    const auto q = block_.values<std::int32_t>(Dataset::read_q);
    const auto layer = block_.values<std::int16_t>(Dataset::read_layer);
    const auto kv_head = block_.values<std::int16_t>(Dataset::read_kv_head);
    const auto spans = block_.values<std::int64_t>(Dataset::page_span);
    const auto pages = block_.values<std::int32_t>(Dataset::page);
    for (const auto page : pages)
      if (page < 0 || page > n_) fail(Dataset::page, std::to_string(page), "0 to " + std::to_string(n_));
    std::vector<std::int32_t> last(static_cast<std::size_t>(model_.n_layers) * model_.n_kv_heads, 0);
    std::uint64_t end_of_last = 0;
    run_.reads.reserve(q.size());
    for (std::size_t i = 0; i < q.size(); ++i) {
      check_head(Dataset::read_layer, layer[i], Dataset::read_kv_head, kv_head[i]);
      auto& last_q = last[static_cast<std::size_t>(layer[i]) * model_.n_kv_heads + kv_head[i]];
      if (q[i] < last_q || q[i] >= n_)
        fail(Dataset::read_q, std::to_string(q[i]) + " after " + std::to_string(last_q),
             "ascending positions of the run");
      last_q = q[i];
      const auto base = static_cast<std::uint64_t>(block_.slice.begin[Axis::page]);
      const auto begin = static_cast<std::uint64_t>(spans[2 * i]) - base;
      const auto end = static_cast<std::uint64_t>(spans[2 * i + 1]) - base;
      if (begin != end_of_last || end < begin || end > pages.size())
        fail(Dataset::page_span, "a span out of order at read " + std::to_string(i), "one read after the other");
      run_.reads.push_back({q[i], layer[i], kv_head[i], {pages.begin() + begin, pages.begin() + end}});
      end_of_last = end;
    }
  }

  void check_head(Dataset layer_id, int layer, Dataset kv_head_id, int kv_head) const {
    if (layer < 0 || layer >= model_.n_layers) fail(layer_id, std::to_string(layer), "a layer of the model");
    if (kv_head < 0 || kv_head >= model_.n_kv_heads) fail(kv_head_id, std::to_string(kv_head), "a head of the model");
  }

  const RunBlock& block_;
  const ModelInfo& model_;
  const std::string& file_;
  const std::int64_t n_;
  RunRecord run_;
};

}  // namespace

std::uint64_t checksum(const RunBlock& block, const ModelInfo& model) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](std::span<const std::byte> bytes) {
    for (const auto byte : bytes) hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3u;
  };
  for (const auto* text :
       {&model.name, &model.path, &model.architecture, &model.dtype, &model.device, &model.weights_hash}) {
    add(std::as_bytes(std::span(*text)));
    add(std::as_bytes(std::span("", 1)));  // texts end in a zero, so that none can pass a letter to the next
  }
  const std::array<std::int64_t, 7> numbers = {model.n_layers,   model.n_heads,       model.n_kv_heads,  model.head_dim,
                                               model.vocab_size, model.max_positions, model.n_parameters};
  add(std::as_bytes(std::span(numbers)));
  for (const auto& dataset : kSchema)
    if (dataset.id != Dataset::checksum) add(block[dataset.id]);
  return hash;
}

RunBlock encode_run(const RunRecord& run, const Extents& filled, int number) {
  RunBlock block;
  block.run = number;
  block.slice.begin = filled;
  block.slice.begin[Axis::layer] = block.slice.begin[Axis::kv_head] = block.slice.begin[Axis::pair] = 0;
  auto& count = block.slice.count;
  count[Axis::run] = 1;
  count[Axis::token] = run.n_tokens();
  count[Axis::contest] = static_cast<std::int64_t>(run.contests.size());
  count[Axis::piece_byte] = static_cast<std::int64_t>(run.pieces.bytes().size());
  count[Axis::layer] = run.model.n_layers;
  count[Axis::kv_head] = run.model.n_kv_heads;

  encode_tokens(block, run, filled[Axis::piece_byte]);
  encode_texts(block, run, filled[Axis::text_byte]);
  encode_scalars(block, run);
  encode_series(block, run.evict_at, kUndecided, Dataset::evict_at, Dataset::evict_at_length);
  encode_series(block, run.scores, kNaN, Dataset::score, Dataset::score_length);
  encode_series(block, run.future_mass, kNaN, Dataset::future_mass, Dataset::future_mass_length);
  encode_series(block, run.oracle_evict_at, kUndecided, Dataset::oracle_evict_at, Dataset::oracle_evict_at_length);
  encode_contests(block, run.contests);
  encode_reads(block, run.reads, filled[Axis::page]);
  encode_derived(block, run);
  for (const auto& [span, axis] : kAxisSpans)
    block.set<std::int64_t>(span, std::array<std::int64_t, 2>{filled[axis], filled[axis] + count[axis]});
  block.set(Dataset::checksum, checksum(block, run.model));
  return block;
}

RunRecord decode_run(const RunBlock& block, const ModelInfo& model, const std::string& file) {
  return Decoder(block, model, file).decode();
}

bool same_model(const ModelInfo& a, const ModelInfo& b) {
  return a.name == b.name && a.path == b.path && a.architecture == b.architecture && a.dtype == b.dtype &&
         a.device == b.device && a.weights_hash == b.weights_hash && a.scorer == b.scorer && a.n_layers == b.n_layers &&
         a.n_heads == b.n_heads && a.n_kv_heads == b.n_kv_heads && a.head_dim == b.head_dim &&
         a.vocab_size == b.vocab_size && a.max_positions == b.max_positions && a.n_parameters == b.n_parameters;
}

void check_model(const ModelInfo& model, const std::string& file) {
  const auto within = [&](const char* name, std::int64_t value, std::int64_t min, std::int64_t max) {
    if (value < min || value > max)
      throw Error({.file = file,
                   .where = std::string("/model ") + name,
                   .found = std::to_string(value),
                   .expected = std::to_string(min) + " to " + std::to_string(max)});
  };
  within("n_layers", model.n_layers, 1, 4096);
  within("n_kv_heads", model.n_kv_heads, 1, 4096);
  within("n_heads", model.n_heads, 0, 1 << 20);
  within("head_dim", model.head_dim, 0, 1 << 20);
  within("vocab_size", model.vocab_size, 0, INT32_MAX);
  within("max_positions", model.max_positions, 0, INT32_MAX);
  within("n_parameters", model.n_parameters, 0, INT64_MAX);
}

}  // namespace kvscope::trace
