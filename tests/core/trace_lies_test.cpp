// Traces whose checksum fits and whose numbers cannot be a run's: whoever makes a hostile file can compute a checksum.

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "engine/core/record/check.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/support/error.h"
#include "engine/core/trace/run_block.h"
#include "tests/core/trace_support.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;
using trace::Dataset;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

using Lie = std::function<void(trace::RunBlock& block)>;

template <typename T>
Lie set(Dataset id, std::size_t index, T value) {
  return [=](trace::RunBlock& block) {
    REQUIRE(block[id].size() >= (index + 1) * sizeof value);
    std::memcpy(block[id].data() + index * sizeof value, &value, sizeof value);
  };
}
template <typename T>
Lie fill(Dataset id, T value) {
  return [=](trace::RunBlock& block) {
    for (std::size_t i = 0; i < block.values<T>(id).size(); ++i) set(id, i, value)(block);
  };
}
/// Of the same length, so that spans still fit.
Lie text(std::string_view from, std::string_view to) {
  return [=](trace::RunBlock& block) {
    auto& bytes = block[Dataset::text];
    const std::string_view pool(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto at = pool.find(from);
    REQUIRE((at != pool.npos && from.size() == to.size()));
    std::memcpy(bytes.data() + at, to.data(), to.size());
  };
}

RunRecord told(const RunRecord& run, const Lie& lie) {
  trace::RunBlock block = trace::encode_run(run, trace::Extents{}, 0);
  lie(block);
  block.set(Dataset::checksum, trace::checksum(block, run.model));
  return trace::decode_run(block, run.model, "hostile.h5");
}

/// The line that refuses it; "" if it is believed.
std::string line_of(const RunRecord& run, const Lie& lie) {
  try {
    told(run, lie);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_input);
    return error.what();
  }
  return "";
}

RunRecord rich_run() { return random_run(3, {.output_error = true, .page_reads = true, .n_changes = 2}); }

}  // namespace

TEST_CASE("trace lies: with a checksum that fits, every value is still checked", "[core][trace][lies]") {
  const RunRecord run = formula_run(0);
  const auto attempt = [&](const Lie& lie) { told(run, lie); };
  CHECK_NOTHROW(attempt([](trace::RunBlock&) {}));
  CHECK_THROWS_AS(attempt(set(Dataset::token_id, 3, -1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::token_id, 3, 4096)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::piece_span, 2, INT64_MIN)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::piece_span, 3, INT64_MAX)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::evict_at, 0, -1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::evict_at_length, 0, -1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::score_length, 2, run.n_tokens() + 1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::contest_layer, 1, std::int16_t{3})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::contest_kv_head, 1, std::int16_t{-1})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::contest_q, 0, run.n_tokens())), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::contest_evicted, 0, -2)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::prompt_len, 0, run.n_tokens() + 1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::n_pieces, 0, run.n_tokens() + 1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::status, 0, std::uint8_t{4})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::prompt_index, 0, -2)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::instrumented, 0, std::uint8_t{2})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::policy_span, 1, std::int64_t{1} << 40)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::policy_span, 1, std::int64_t{9})), Error);  // cuts the policy's name
  CHECK_THROWS_AS(attempt(set(Dataset::read_q, run.reads.size() - 1, -1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::read_q, 0, run.n_tokens())), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::read_layer, 0, std::int16_t{-1})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::read_kv_head, 0, std::int16_t{2})), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::page_span, 3, INT64_MAX)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::page_span, 4, INT64_MIN)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::page, 0, -1)), Error);
  CHECK_THROWS_AS(attempt(set(Dataset::page, 0, run.n_tokens() + 1)), Error);
  CHECK_THROWS_AS(attempt(text("10\tstreaming", "99\tstreaming")), Error);
  CHECK_THROWS_AS(attempt(text("10\tstreaming", "10 streaming")), Error);
  CHECK_THROWS_AS(attempt(text("10\tstreaming", "10\tdreaming!")), Error);
  CHECK_THROWS_AS(attempt(text("agg=max", "agg=min")), Error);
  CHECK_THROWS_AS(attempt([](trace::RunBlock& block) {  // cuts the last line's end
                    auto end = block.values<std::int64_t>(Dataset::changes_span)[1] - 1;
                    std::memcpy(block[Dataset::changes_span].data() + sizeof end, &end, sizeof end);
                  }),
                  Error);
  CHECK_THROWS_AS(attempt([](trace::RunBlock& block) { block[Dataset::score].pop_back(); }), Error);
  CHECK_THROWS_AS(attempt([](trace::RunBlock& block) { block.slice.count[trace::Axis::token] += 1; }), Error);
}

TEST_CASE("trace lies: a number that no run can have is refused with file, run, place and rule",
          "[core][trace][lies]") {
  const RunRecord run = rich_run();
  const int n = run.n_tokens();
  REQUIRE(line_of(run, [](trace::RunBlock&) {}) == "");
  const struct {
    Dataset id;
    Lie lie;
    const char* rule;
  } kLies[] = {
      {Dataset::evict_at, set(Dataset::evict_at, 150, 3), "NEVER or 151 to 180"},
      {Dataset::evict_at, set(Dataset::evict_at, 150, 150), "NEVER or 151 to 180"},
      {Dataset::evict_at, set(Dataset::evict_at, 150, 1000000000), "NEVER or 151 to 180"},
      {Dataset::evict_at, set(Dataset::evict_at, 150, n + 1), "NEVER or 151 to 180"},
      {Dataset::evict_at, set(Dataset::evict_at_length, 0, 0), "expected 180"},
      {Dataset::evict_at, fill(Dataset::evict_at_length, 100), "expected 180"},
      {Dataset::evict_at, fill(Dataset::evict_at_length, -1), "one per layer and head"},
      {Dataset::score, set(Dataset::score_length, 2, 3), "expected 180"},
      {Dataset::future_mass, set(Dataset::future_mass_length, 2, 3), "expected 180"},
      {Dataset::future_max, set(Dataset::future_max_length, 2, 3), "expected 180"},
      {Dataset::n_pieces, set(Dataset::n_pieces, 0, 0), "expected 180"},
      {Dataset::token_logprob, set(Dataset::n_logprobs, 0, 179), "expected 180"},
      {Dataset::token_logprob, set(Dataset::token_logprob, 5, 5.0f), "0 or less"},
      {Dataset::future_mass, set(Dataset::future_mass, 5, 1.5f), "0 to 1"},
      {Dataset::future_mass, set(Dataset::future_mass, 5, -1.5f), "0 to 1"},
      {Dataset::future_rms, set(Dataset::future_rms, 5, kInfinity), "0 to 1"},
      {Dataset::value_norm, set(Dataset::value_norm, 5, kInfinity), "0 or more"},
      {Dataset::prompt_len, set(Dataset::prompt_len, 0, 0), "1 to 180"},
      {Dataset::status, set(Dataset::status, 0, std::uint8_t{0}), "a run that has ended"},
      {Dataset::scorer_delay, set(Dataset::scorer_delay, 0, INT32_MAX), "-1 to 16777216"},
      {Dataset::local_heads, set(Dataset::local_heads, 4, std::uint8_t{1}), "255 for all heads"},
      {Dataset::head_top_k, set(Dataset::head_top_k, 4, 7), "-1 for all heads"},
      {Dataset::head_log_gamma, set(Dataset::head_log_gamma, 4, -0.5f), "nan for all heads"},
      {Dataset::head_threshold, set(Dataset::head_threshold, 4, 0.5f), "nan for all heads"},
      {Dataset::n_positions, set(Dataset::n_positions, 0, INT32_MAX), "180 to 16777216"},
      {Dataset::page_size, set(Dataset::page_size, 0, 0), "1 to 4096"},
      {Dataset::n_queries, set(Dataset::n_queries, 0, 3), "179 to 180"},
      {Dataset::temperature, set(Dataset::temperature, 0, std::nan("")), "0 to 100"},
      {Dataset::temperature, set(Dataset::temperature, 0, -1.0), "0 to 100"},
      {Dataset::sampling_top_k, set(Dataset::sampling_top_k, 0, INT32_MAX), "0 to 16777216"},
      {Dataset::sampling_top_p, set(Dataset::sampling_top_p, 0, 7.0), "0 to 1"},
      {Dataset::sampling_min_p, set(Dataset::sampling_min_p, 0, -1.0), "0 to 1"},
      {Dataset::repetition_penalty, set(Dataset::repetition_penalty, 0, 0.0), "0.01 to 100"},
      {Dataset::decode_s, set(Dataset::decode_s, 0, std::nan("")), "0 to 1e+09"},
      {Dataset::prefill_s, set(Dataset::prefill_s, 0, -5.0), "0 to 1e+09"},
      {Dataset::decode_steps, set(Dataset::decode_steps, 0, -3), "0 to 16777216"},
      {Dataset::n_sink, set(Dataset::n_sink, 0, 5), "follows from the policy"},
      {Dataset::window, set(Dataset::window, 0, -7), "follows from the policy"},
      {Dataset::top_k, set(Dataset::top_k, 0, 0), "follows from the policy"},
      {Dataset::log_gamma, set(Dataset::log_gamma, 0, std::nan("")), "follows from the policy"},
      {Dataset::decay_stride, set(Dataset::decay_stride, 0, 9), "follows from the policy"},
      {Dataset::density, set(Dataset::density, 1, 7.0f), "0 to 1"},
      {Dataset::density, set(Dataset::density, 1, 0.99f), "follows from the lifetimes"},
      {Dataset::density, set(Dataset::density, 1, kNaN), "follows from the lifetimes"},
      {Dataset::recall, set(Dataset::recall, 1, 5.0f), "0 to 1"},
      {Dataset::chance, set(Dataset::chance, 1, -0.5f), "0 to 1"},
      {Dataset::mass_kept, set(Dataset::mass_kept, 1, kInfinity), "0 to 1"},
      {Dataset::mass_recall, set(Dataset::mass_recall, 1, -1.0f), "0 or more"},
      {Dataset::eviction_verdict, set(Dataset::eviction_verdict, 1, std::uint8_t{9}), "0 to 3"},
      {Dataset::contest_q, set(Dataset::contest_evicted, 3, 1), "one of them or -1 evicted"},
      {Dataset::contest_q, set(Dataset::contest_newcomer, 3, n), "up to the query"},
      {Dataset::contest_q, set(Dataset::contest_boundary, 3, n), "up to the query"},
      {Dataset::read_q, fill(Dataset::page, 0), "pages rising"},
      {Dataset::prompt_text_span, set(Dataset::policy_span, 0, std::int64_t{0}), "one text after the other"},
      {Dataset::group_damage, set(Dataset::group_damage, 3, -1.0f), "a norm"},
      {Dataset::read_mass, set(Dataset::read_mass, 3, 2.0f), "0 to 1"},
  };
  for (const auto& [id, lie, rule] : kLies) {
    const std::string line = line_of(run, lie);
    const std::string path = trace::schema(id).path;
    CAPTURE(path, rule, line);
    CHECK(line.starts_with("hostile.h5: run 0, "));
    CHECK(line.find(rule) != std::string::npos);
    const bool of_group = path.starts_with("contests") || path.starts_with("reads") || path.ends_with("_span");
    CHECK(line.find(of_group ? path.substr(0, path.find('/')) : path) != std::string::npos);
  }
}

TEST_CASE("trace lies: recall so far lies in 0 to 1", "[core][trace][lies]") {
  RunRecord run = random_run(3, {.oracle = false});
  run.recall_so_far.assign(6, 0.5f);
  CHECK(line_of(run, [](trace::RunBlock&) {}) == "");
  CHECK(line_of(run, set(Dataset::recall_so_far, 2, 5.0f)).find("runs/recall_so_far: 5") != std::string::npos);
}

TEST_CASE("trace lies: a run whose policy cannot be over its positions is refused", "[core][trace][lies]") {
  const std::string line = line_of(random_run(3), text("window=16", "window=99"));
  CAPTURE(line);
  CHECK(line.starts_with("hostile.h5: run 0, runs/policy_span: "));
}

TEST_CASE("trace lies: shorter rows of a run that failed are filled with what says that nothing is known",
          "[core][trace][lies]") {
  RunRecord run = random_run(3);
  run.status = RunStatus::failed;
  run.logprobs.resize(100);
  for (int layer = 0; layer < run.model.n_layers; ++layer) run.scores.row(layer, 1).resize(90);
  const RunRecord loaded = told(run, [](trace::RunBlock&) {});
  CHECK_NOTHROW(check_run(loaded));
  CHECK(loaded.logprobs.size() == 180);
  CHECK(std::isnan(loaded.logprobs[100]));
  CHECK(loaded.scores.row(1, 1).size() == 180);
  CHECK(told(run, set(Dataset::evict_at_length, 0, 7)).evict_at.row(0, 0)[7] == kUndecided);
  CHECK(told(run, fill(Dataset::evict_at_length, -1)).evict_at.row(1, 2).size() == 180);
  CHECK(told(run, set(Dataset::n_pieces, 0, 0)).pieces.size() == 180);
}
