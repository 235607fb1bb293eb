#include "tests/support/random_run.h"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <random>
#include <string_view>

#include "engine/core/policy/policy.h"
#include "engine/core/record/asked_json.h"
#include "engine/core/record/run_fields.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/text.h"

namespace kvscope::test {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int kVocabSize = 4096;
constexpr std::string_view kPieces[] = {
    " the",  " Thus",       " multiplies", "7",         "42",   ",",     ".\n",
    "\t",    " \"quoted\"", " r\xC3\xA9",  "\xE2\x82",  "\xAC", "\x1B[", " \xE4\xB8\xAD",
    " fact", " of",         "\n\n",        "<|im_end|>"};

/// std distributions differ between libraries; this does not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  float uniform() { return static_cast<float>(engine_() >> 40) * 0x1p-24f; }  // [0, 1)
  float bell() { return uniform() + uniform() + uniform() + uniform() - 2; }  // mean 0, about normal

 private:
  std::mt19937_64 engine_;
};

ModelInfo model_info(const RandomRunOptions& options, int window, int n_positions) {
  return {.name = "random-model",
          .path = "models/random-model",
          .architecture = "Qwen3ForCausalLM",
          .dtype = "float32",
          .device = "cpu",
          .weights_hash = "0123456789abcdef",
          .scorer = options.scorer ? "kvpop mlstm, delay " + std::to_string(window) : "",
          .n_layers = options.n_layers,
          .n_heads = options.n_kv_heads * options.group_size,
          .n_kv_heads = options.n_kv_heads,
          .head_dim = 64,
          .vocab_size = kVocabSize,
          .max_positions = 2 * n_positions,
          .n_parameters = 1234567};
}

void add_tokens(RunRecord& run, int n, Random& random) {
  constexpr int kNames = static_cast<int>(std::size(kPieces));
  for (int t = 0; t < n; ++t) {
    const int word = random.below(kNames);
    run.ids.push_back(word + kNames * random.below(kVocabSize / kNames));
    run.pieces.push_back(kPieces[word]);
    run.logprobs.push_back(t == 0 ? kNaN : -8 * random.uniform() * random.uniform());
  }
}

/// [0, 1), of token and head alone, so that runs without these kinds draw the same numbers else.
float random_kind(int t, int a, int b) {
  return static_cast<float>(std::mt19937(static_cast<unsigned>((t * 31 + a) * 17 + b))() >> 8) * 0x1p-24f;
}

/// One value a token that has left the window; NaN for the others.
void add_scores_and_mass(RunRecord& run, const RandomRunOptions& options, int n_decided, Random& random) {
  std::vector<float> importance(run.ids.size());  // of the token itself; every head sees it in its own way
  for (float& value : importance) value = random.bell();
  for (int layer = 0; layer < options.n_layers; ++layer) {
    for (int head = 0; head < options.n_kv_heads; ++head) {
      for (int t = 0; t < n_decided; ++t) {
        const float own = importance[t] + random.bell();
        if (options.scorer) run.scores.row(layer, head)[t] = own + 0.5f * random.bell();
        if (!options.oracle) continue;
        const float mass = 0.01f / (1 + std::exp(-3 * own));
        run.future_mass.row(layer, head)[t] = mass;
        // Kinds that order the tokens in other ways: of no model, but as uneven as one's.
        const float other = 0.5f + random_kind(t, layer, head), weight = 0.25f + random_kind(t + 1, head, layer);
        run.future.rms.row(layer, head)[t] = 3 * mass * other;
        run.future.max.row(layer, head)[t] = std::min(1.0f, 20 * mass * other * other);
        run.future.value_norm.row(layer, head)[t] = 4 * weight;
        run.future.output_mean.row(layer, head)[t] = mass * weight;
        run.future.output_rms.row(layer, head)[t] = 3 * mass * other * weight;
        run.future.output_max.row(layer, head)[t] = 20 * mass * other * other * weight;
      }
    }
  }
}

void add_lifetimes(RunRecord& run) {
  if (policy_of(run.policy).plan(run.policy, run.geometry()).is_pooled()) {
    const HeadIndex heads{0, 0, run.model.n_layers, run.model.n_kv_heads};
    pooled_lifetimes(run.policy, {run.n_positions, run.prompt_len, run.queries()}, heads, run.scores, run.scorer.delay,
                     run.evict_at, &run.contests);
    return;
  }
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head) {
      std::vector<Contest> contests;
      policy_lifetimes(run.policy, run.n_positions, run.scores.row(layer, head), run.queries(),
                       run.evict_at.row(layer, head), &contests);
      for (Contest& contest : contests) {
        contest.layer = static_cast<std::int16_t>(layer);
        contest.kv_head = static_cast<std::int16_t>(head);
      }
      run.contests.insert(run.contests.end(), contests.begin(), contests.end());
    }
  }
}

void add_reads(RunRecord& run, Random& random) {
  for (std::int32_t q = 0; q < run.n_queries; ++q) {
    for (int head = 0; head < run.model.n_layers * run.model.n_kv_heads; ++head) {
      PageRead read{.q = q,
                    .layer = static_cast<std::int16_t>(head / run.model.n_kv_heads),
                    .kv_head = static_cast<std::int16_t>(head % run.model.n_kv_heads),
                    .pages = {}};
      for (std::int32_t page = 0; page <= q / 16 && read.pages.size() < 8; ++page) {
        if (random.below(3) > 0) read.pages.push_back(page);
      }
      run.reads.push_back(std::move(read));
    }
  }
}

/// Nothing is lost while the window fills, nor in the last head of a layer.
void add_output_error(RunRecord& run, int window, Random& random) {
  run.output_error = OutputError(run.model.n_layers, run.model.n_kv_heads);
  visit_fields(run.output_error, [&](std::string_view name, HeadSeries<float>& series, auto) {
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      for (int head = 0; head < series.n_kv_heads(); ++head) {
        for (int q = 0; q < run.queries(); ++q) {
          const bool lost = q >= window && (series.n_kv_heads() == 1 || head + 1 < series.n_kv_heads());
          const float norm = name == "layer_output" ? 1 + random.uniform() : 0.5f * random.uniform();
          series.row(layer, head).push_back(lost || name == "layer_output" ? norm : kNaN);
        }
      }
    }
  });
}

void add_changes(RunRecord& run, int n, Random& random) {
  for (int i = 0; i < n; ++i) {
    const std::int32_t q = run.prompt_len + i * (run.n_positions - run.prompt_len) / n;
    run.changes.push_back({q, PolicySpec::parse("top-k:window=16,budget=" + std::to_string(40 + random.below(40)))});
  }
}

template <typename T>
bool same(const T& a, const T& b) {
  return a == b;
}
bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }
bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) { return same(x, y); });
}
bool same(const BytePool& a, const BytePool& b) { return a.bytes() == b.bytes() && a.offsets() == b.offsets(); }
bool same(const HeadSeries<float>& a, const HeadSeries<float>& b) {
  if (a.n_layers() != b.n_layers() || a.n_kv_heads() != b.n_kv_heads()) return false;
  for (int layer = 0; layer < a.n_layers(); ++layer) {
    for (int head = 0; head < a.n_kv_heads(); ++head) {
      if (!same(a.row(layer, head), b.row(layer, head))) return false;
    }
  }
  return true;
}

/// Records keep queries ascending within a head; how heads are interleaved depends on who wrote them.
std::vector<Contest> by_head(std::vector<Contest> contests) {
  std::stable_sort(contests.begin(), contests.end(), [](const Contest& a, const Contest& b) {
    return a.layer != b.layer ? a.layer < b.layer : a.kv_head < b.kv_head;
  });
  return contests;
}

std::string shown(const std::string& value) { return "\"" + value + "\""; }
std::string shown(double value) { return std::to_string(value); }
template <typename T>
std::string shown(const std::vector<T>& value) {
  return std::to_string(value.size()) + " values";
}
template <typename T>
std::string shown(const HeadSeries<T>& value) {
  return std::to_string(value.n_layers()) + " x " + std::to_string(value.n_kv_heads()) + " rows";
}
std::string shown(const BytePool& value) { return std::to_string(value.size()) + " pieces"; }

std::string exact(const std::string& value) { return value; }
std::string exact(double value) { return number_text(value); }
template <std::integral T>
std::string exact(T value) {
  return std::to_string(value);
}

class Comparison {
 public:
  template <typename T>
  void field(const std::string& name, const T& a, const T& b) {
    if (difference_.empty() && !same(a, b)) difference_ = name + ": " + shown(a) + " against " + shown(b);
  }
  /// Of a struct that run_fields.h describes.
  template <typename T>
  void fields(const std::string& prefix, const T& a, const T& b) {
    std::vector<std::string> of_b;
    visit_fields(b, [&](const char*, const auto& value, auto) { of_b.push_back(exact(as_number(value))); });
    std::size_t i = 0;
    visit_fields(a, [&](const char* name, const auto& value, auto) {
      field(prefix + name, exact(as_number(value)), of_b[i++]);
    });
  }
  const std::string& difference() const { return difference_; }

 private:
  std::string difference_;
};

/// Like the scores, the same under every policy.
Asked asked_for(const RunRecord& run) {
  Asked asked{
      .request = {.prompt = run.prompt_text, .max_tokens = run.n_positions - run.prompt_len, .sampling = run.sampling}};
  asked.gates = {{.given = "gates/wg kv-0.01", .name = "wg kv-0.01", .hash = "00ff"}};
  asked.key = key_of(asked, run.model.weights_hash, run.started_utc);
  return asked;
}

}  // namespace

RunRecord random_run(std::uint64_t seed, const RandomRunOptions& options) {
  Random random(seed);
  RunRecord run;
  const int n = options.prompt_len + options.n_new;
  run.policy = PolicySpec::parse(options.policy);
  run.n_positions = n;
  const int window = run.geometry().window;
  run.model = model_info(options, window, n);
  if (options.scorer) run.scorer = {.kind = "kvpop_mlstm", .delay = window, .text = run.model.scorer};
  run.sampling = {
      .temperature = 0.75, .top_k = 40, .top_p = 0.5, .min_p = 0.125, .repetition_penalty = 1.25, .seed = seed};
  run.prompt_text = "A prompt, \"quoted\", of seed " + std::to_string(seed) + ".\n";
  run.prompt_len = options.prompt_len;
  add_tokens(run, n, random);
  run.n_queries = options.last_token_fed ? n : n - 1;

  run.evict_at = LifetimeMap(options.n_layers, options.n_kv_heads);
  run.evict_at.resize(n, kUndecided);
  run.scores = HeadSeries<float>(options.n_layers, options.n_kv_heads);
  run.scores.resize(n, kNaN);
  if (options.oracle) {
    run.future_mass = HeadSeries<float>(options.n_layers, options.n_kv_heads);
    run.future_mass.resize(n, kNaN);
    run.oracle_horizon = run.n_queries;
    visit_future(run.future, [&](const char*, HeadSeries<float>& series) {
      series = HeadSeries<float>(options.n_layers, options.n_kv_heads);
      series.resize(n, kNaN);
    });
  }
  add_scores_and_mass(run, options, std::max(0, run.n_queries - window), random);
  add_lifetimes(run);

  run.status = RunStatus::complete;
  run.timings = {
      .load_s = 0.25, .prefill_s = 0.125, .decode_s = 1.5, .decode_steps = options.n_new, .instrumented = true};
  run.started_utc = "2026-11-21T03:00:00Z";
  Random extras(seed + 1);  // their own, so that a run with them is else the run without
  if (options.page_reads) add_reads(run, extras);
  add_changes(run, options.n_changes, extras);
  if (options.output_error) add_output_error(run, window, extras);
  run.asked = std::make_shared<const Asked>(asked_for(run));
  return run;
}

HeadRules& own_rules(RunRecord& run) {
  const std::size_t n = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (run.heads.empty()) run.heads.assign(n, rule_of(run.geometry()));
  return run.heads;
}

void make_local(RunRecord& run, const std::vector<std::uint8_t>& local) {
  HeadRules& heads = own_rules(run);
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (local.at(i) == 0) continue;
    heads[i].locality = Locality::policy;
    heads[i].top_k = 0;
  }
}

std::string run_difference(const RunRecord& a, const RunRecord& b) {
  Comparison c;
  c.fields("model.", a.model, b.model);
  c.field("scorer.kind", a.scorer.kind, b.scorer.kind);
  c.field("scorer.delay", a.scorer.delay, b.scorer.delay);
  c.field("scorer.text", a.scorer.text, b.scorer.text);
  c.field("heads", a.heads.size(), b.heads.size());
  for (std::size_t i = 0; i < std::min(a.heads.size(), b.heads.size()); ++i)
    c.fields(("heads." + std::to_string(i) + ".").c_str(), a.heads[i], b.heads[i]);
  c.field("policy", a.policy.to_string(), b.policy.to_string());
  c.fields("", static_cast<const RunHead&>(a), static_cast<const RunHead&>(b));
  c.fields("sampling.", a.sampling, b.sampling);
  c.field("prompt_text", a.prompt_text, b.prompt_text);
  c.field("prompt_len", a.prompt_len, b.prompt_len);
  c.field("ids", a.ids, b.ids);
  c.field("pieces", a.pieces, b.pieces);
  c.field("logprobs", a.logprobs, b.logprobs);
  c.field("evict_at", a.evict_at, b.evict_at);
  c.field("scores", a.scores, b.scores);
  c.field("contests", by_head(a.contests), by_head(b.contests));
  c.field("reads", a.reads, b.reads);
  c.field("changes", a.changes, b.changes);
  c.field("oracle", a.oracle.to_string(), b.oracle.to_string());
  c.field("future_mass", a.future_mass, b.future_mass);
  std::vector<const HeadSeries<float>*> of_b;
  visit_future(b.future, [&](const char*, const HeadSeries<float>& series) { of_b.push_back(&series); });
  std::size_t next = 0;
  visit_future(a.future,
               [&](const char* name, const HeadSeries<float>& series) { c.field(name, series, *of_b[next++]); });
  c.field("oracle_horizon", a.oracle_horizon, b.oracle_horizon);
  c.field("recall_so_far", a.recall_so_far, b.recall_so_far);
  c.field("group_damage", a.output_error.group_damage, b.output_error.group_damage);
  c.field("layer_damage", a.output_error.layer_damage, b.output_error.layer_damage);
  c.field("layer_output", a.output_error.layer_output, b.output_error.layer_output);
  c.field("read_mass", a.output_error.read_mass, b.output_error.read_mass);
  c.field("best_read_mass", a.output_error.best_read_mass, b.output_error.best_read_mass);
  c.field("queries", a.queries(), b.queries());
  c.field("status", std::string(to_string(a.status)), std::string(to_string(b.status)));
  c.field("message", a.message, b.message);
  c.fields("timings.", a.timings, b.timings);
  c.field("prompt_index", a.prompt_index, b.prompt_index);
  c.field("asked", asked_text(a), asked_text(b));
  c.field("started_utc", a.started_utc, b.started_utc);
  c.field("recorder", a.recorder, b.recorder);
  return c.difference();
}

}  // namespace kvscope::test
