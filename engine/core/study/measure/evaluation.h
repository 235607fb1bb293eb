#pragma once
// What an evaluation is asked for, what it tells answer by answer, and the table that comes of it. The engine makes answers;
// files, resumption and tables are functions of them.

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/core/record/run_fields.h"

namespace kvscope {

/// How several rollouts are drawn where nothing else is asked for: as in KVpop's Table 1.
inline constexpr double kRolloutTemperature = 0.6, kRolloutTopP = 0.95;

struct EvalRequest {
  std::string model, device = "auto", dtype = "auto";
  std::vector<std::string> gates;
  std::vector<std::string> tasks;     // names; empty: those that suit the model
  std::vector<std::string> policies;  // as people write them; the dense one is asked in any case
  bool sweep = false;                 // also every policy that needs no gate, at 50, 25 and 12.5 % kept
  std::vector<std::string> texts;     // files whose pieces are read, teacher-forced
  int questions = 100;                // of each task
  int pieces = 8;                     // of each text
  int length = 0;                     // tokens of prompt and answer, and of a piece; 0: min(2048, context)
  int chunk = 1;                      // of a text: the policy acts after every so many tokens
  std::uint64_t seed = 1;
  std::string filler;  // file of English text around the tasks; empty: the project's own
  bool chat = false;   // the question as a message of the model's chat template
  bool oracle = false, output_error = false;
  int rollouts = 1;        // answers to each question; more than one need a temperature
  double temperature = 0;  // 0: greedy
  double top_p = 1;
  std::vector<std::string> done;  // EvalAnswer::key() of what need not be asked again
};

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, EvalRequest>
void visit_fields(T& r, Visit&& visit) {
  visit("model", r.model, AnyValue{});
  visit("device", r.device, AnyValue{});
  visit("dtype", r.dtype, AnyValue{});
  visit("gates", r.gates, AnyValue{});
  visit("tasks", r.tasks, AnyValue{});
  visit("policies", r.policies, AnyValue{});
  visit("sweep", r.sweep, AnyValue{});
  visit("texts", r.texts, AnyValue{});
  visit("questions", r.questions, FieldRange{1, 100'000});
  visit("pieces", r.pieces, FieldRange{1, 100'000});
  visit("length", r.length, FieldRange{0, kMaxPositions});
  visit("chunk", r.chunk, FieldRange{1, kMaxPositions});
  visit("seed", r.seed, FieldRange{0, 9e18});
  visit("filler", r.filler, AnyValue{});
  visit("chat", r.chat, AnyValue{});
  visit("oracle", r.oracle, AnyValue{});
  visit("output_error", r.output_error, AnyValue{});
  visit("rollouts", r.rollouts, FieldRange{1, 10'000});
  visit("temperature", r.temperature, FieldRange{0, 100});
  visit("top_p", r.top_p, FieldRange{1e-6, 1});
  visit("done", r.done, AnyValue{});
}

/// What an evaluation runs on, told before its first answer.
struct EvalFacts {
  std::string model, weights_hash, device, dtype;
  int length = 0;  // tokens of prompt and answer, and of a piece
  std::vector<std::string> items, policies;
  std::vector<std::string>
      inputs;  // "heldout.txt 1f2e...": every file that decides the answers, with a hash of its bytes
  bool operator==(const EvalFacts&) const = default;
};

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, EvalFacts>
void visit_fields(T& f, Visit&& visit) {
  visit("model", f.model, AnyValue{});
  visit("weights_hash", f.weights_hash, AnyValue{});
  visit("device", f.device, AnyValue{});
  visit("dtype", f.dtype, AnyValue{});
  visit("length", f.length, FieldRange{1, kMaxPositions});
  visit("items", f.items, AnyValue{});
  visit("policies", f.policies, AnyValue{});
  visit("inputs", f.inputs, AnyValue{});
}

/// Of a field that answers from before it do not have (journal.h).
struct LaterField : FieldRange {
  static constexpr bool is_later = true;
};

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

/// One question or piece of a text under one policy.
struct EvalAnswer {
  std::string item;  // name of the task, or of the text's file
  bool is_text = false;
  std::string policy;
  bool is_dense = false;                 // of the policy that the others are compared with
  int index = 0;                         // of the question or piece
  int rollout = 0;                       // of the answers to one question
  bool is_right = false;                 // of a share: 1
  double share = kNotMeasured;           // of a task that marks how much of the answer is there: 0 to 1
  std::string expected, answer;          // of a question
  double nll = kNotMeasured;             // of a piece: mean, nats per token
  double density = kNotMeasured;         // Metric::density at the last query, mean over heads
  double read_share = kNotMeasured;      // Metric::read_share likewise
  double cache_tokens = kNotMeasured;    // in the cache at the last query, sinks and window too: mean over heads
  double cache_size = kNotMeasured;      // mean_cache_size(): tokens held / tokens read, mean over heads and queries
  double cache_size_end = kNotMeasured;  // the same at the last query
  double window = kNotMeasured;          // tokens that the policy always keeps, which density leaves out
  double evicted = kNotMeasured;         // tokens that had left by the last query, mean over heads
  double triggers = kNotMeasured;        // queries at which some head evicted something
  double overflows = kNotMeasured;       // of these, queries at which something older than its window left
  double recall = kNotMeasured;          // of the run's oracle: mean over heads and queries with a choice
  double mass_recall = kNotMeasured;     // of the same queries
  double output_error = kNotMeasured;    // mean over layers of output_error_curve()
  int tokens = 0;                        // that `seconds` went into: those of the answer, or of the piece
  double seconds = 0;                    // of a question: until its last token, beside others that are decoded with it

  double mark() const { return std::isnan(share) ? static_cast<double>(is_right) : share; }
  /// Who asked what: two answers of one evaluation have the same only if they are the same.
  std::string key() const {
    return item + "\t" + policy + "\t" + std::to_string(index) + (rollout > 0 ? "\t" + std::to_string(rollout) : "");
  }
};

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, EvalAnswer>
void visit_fields(T& a, Visit&& visit) {
  visit("item", a.item, AnyValue{});
  visit("is_text", a.is_text, AnyValue{});
  visit("policy", a.policy, AnyValue{});
  visit("is_dense", a.is_dense, AnyValue{});
  visit("index", a.index, FieldRange{0, 100'000});
  visit("rollout", a.rollout, FieldRange{0, 10'000});
  visit("is_right", a.is_right, AnyValue{});
  visit("share", a.share, LaterField{{0, 1}});
  visit("expected", a.expected, AnyValue{});
  visit("answer", a.answer, AnyValue{});
  visit("nll", a.nll, FieldRange{0, 1e9});
  visit("density", a.density, FieldRange{0, 1});
  visit("read_share", a.read_share, FieldRange{0, 1});
  visit("cache_tokens", a.cache_tokens, FieldRange{0, kMaxPositions});
  visit("cache_size", a.cache_size, FieldRange{0, 1});
  visit("cache_size_end", a.cache_size_end, FieldRange{0, 1});
  visit("window", a.window, FieldRange{0, kMaxPositions});
  visit("evicted", a.evicted, FieldRange{0, kMaxPositions});
  visit("triggers", a.triggers, FieldRange{0, kMaxPositions});
  visit("overflows", a.overflows, LaterField{{0, kMaxPositions}});
  visit("recall", a.recall, FieldRange{0, 1});
  visit("mass_recall", a.mass_recall, FieldRange{0, 1e9});
  visit("output_error", a.output_error, FieldRange{0, 1e9});
  visit("tokens", a.tokens, FieldRange{0, kMaxPositions});
  visit("seconds", a.seconds, FieldRange{0, 1e9});
}

/// Wilson's interval of a rate that was `right` times of n, at 95 %:
///
///     (p + z^2 / 2n +- z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n),    z = 1.959964
///
/// [0, 1] for n = 0. Where `right` is a sum of shares, the interval is too wide rather than too narrow: shares of the same mean
/// vary at most as much.
struct Interval {
  double low = 0, high = 1;
};
Interval wilson_95(double right, int n);

/// Of the mean over questions of shares, such as pass@1 = that of the right rollouts, at 95 %: Student's t over the questions,
/// since the rollouts of one are alike,
///
///     p +- t_{0.975, n - 1} s / sqrt(n),    within [0, 1]
///
/// [0, 1] for fewer than two questions. Where all shares are equal, Wilson's interval of n questions.
Interval mean_95(std::span<const double> shares);

/// One item under one policy. What does not apply, or was not measured, is NaN.
struct EvalRow {
  std::string item, policy;
  int n = 0;                                       // questions or pieces
  double rollouts = kNotMeasured;                  // answers to a question, where there are several: their mean
  bool is_share = false;                           // accuracy is a mean of EvalAnswer::share
  double accuracy = kNotMeasured;                  // mean of EvalAnswer::mark(); of several rollouts pass@1
  double low = kNotMeasured, high = kNotMeasured;  // wilson_95(), or of shares or several rollouts mean_95()
  double relative = kNotMeasured;                  // accuracy / that of the dense policy on the same questions
  double nll = kNotMeasured;                       // mean over the pieces
  double perplexity = kNotMeasured;                // exp(nll)
  double nll_difference = kNotMeasured;     // mean over the pieces of nll - that of the dense policy on the same piece
  double nll_difference_se = kNotMeasured;  // its standard error, s / sqrt(n); NaN for fewer than two pieces
  double density = kNotMeasured, read_share = kNotMeasured, cache_tokens = kNotMeasured;
  double cache_size = kNotMeasured, cache_size_end = kNotMeasured, window = kNotMeasured;
  double evicted = kNotMeasured, triggers = kNotMeasured, overflows = kNotMeasured;
  double recall = kNotMeasured, mass_recall = kNotMeasured, output_error = kNotMeasured;
  double tokens_per_s = kNotMeasured;
};

template <typename T, typename Visit>
requires std::is_same_v<std::remove_const_t<T>, EvalRow>
void visit_fields(T& r, Visit&& visit) {
  visit("item", r.item, AnyValue{});
  visit("policy", r.policy, AnyValue{});
  visit("n", r.n, FieldRange{0, 100'000});
  visit("rollouts", r.rollouts, FieldRange{1, 10'000});
  visit("is_share", r.is_share, AnyValue{});
  visit("accuracy", r.accuracy, FieldRange{0, 1});
  visit("low", r.low, FieldRange{0, 1});
  visit("high", r.high, FieldRange{0, 1});
  visit("relative", r.relative, FieldRange{0, 1e9});
  visit("nll", r.nll, FieldRange{0, 1e9});
  visit("perplexity", r.perplexity, FieldRange{1, 1e300});
  visit("nll_difference", r.nll_difference, FieldRange{-1e9, 1e9});
  visit("nll_difference_se", r.nll_difference_se, FieldRange{0, 1e9});
  visit("density", r.density, FieldRange{0, 1});
  visit("read_share", r.read_share, FieldRange{0, 1});
  visit("cache_tokens", r.cache_tokens, FieldRange{0, kMaxPositions});
  visit("cache_size", r.cache_size, FieldRange{0, 1});
  visit("cache_size_end", r.cache_size_end, FieldRange{0, 1});
  visit("window", r.window, FieldRange{0, kMaxPositions});
  visit("evicted", r.evicted, FieldRange{0, kMaxPositions});
  visit("triggers", r.triggers, FieldRange{0, kMaxPositions});
  visit("overflows", r.overflows, FieldRange{0, kMaxPositions});
  visit("recall", r.recall, FieldRange{0, 1});
  visit("mass_recall", r.mass_recall, FieldRange{0, 1e9});
  visit("output_error", r.output_error, FieldRange{0, 1e9});
  visit("tokens_per_s", r.tokens_per_s, FieldRange{0, 1e12});
}

/// What an evaluation of one length gave.
struct EvalResult {
  EvalFacts facts;
  std::vector<EvalAnswer> answers;
};

/// A row for every item and policy, in the order in which they first come. Comparisons with the dense policy are paired: they
/// are over the questions and pieces that both have answered.
std::vector<EvalRow> summarise(std::span<const EvalAnswer> answers);

/// What the accuracy of these rows is: "accuracy", "pass@1", or "mean mark" if there are shares among them.
const char* accuracy_title(std::span<const EvalRow> rows);

}  // namespace kvscope
