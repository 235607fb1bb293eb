#include "tests/fake_engine/fake_run.h"

#include <chrono>
#include <cmath>

#include "engine/core/files/tokenizer/stop_strings.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/retention_metrics.h"
#include "engine/core/support/error.h"
#include "tests/fake_engine/fake_model.h"

namespace kvscope::fake {
namespace {

constexpr int kOracleEvery = 8;  // steps between two live recalls

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Lifetimes are recomputed from the start at every step and only what changed is sent: slow and plainly right.
class Player {
 public:
  Player(const RunRequest& request, int id, const ModelInfo& model, const RunHooks& hooks)
      : request_(request),
        id_(id),
        model_(model),
        hooks_(hooks),
        sent_(model.n_layers, model.n_kv_heads),
        scored_(static_cast<std::size_t>(model.n_layers) * model.n_kv_heads, 0),
        contested_(scored_.size(), 0) {}

  void play() {
    start();
    const auto prefill_start = std::chrono::steady_clock::now();
    hooks_.send(protocol::progress(id_, "prefill", 0, prompt_len_));
    hooks_.before_step(0);
    if (hooks_.cancelled()) return hooks_.send(protocol::to_json(RunEnded{RunStatus::cancelled, timings_, ""}, id_));
    send_step(prompt_len_, {}, 1);
    timings_.prefill_s = seconds_since(prefill_start);
    const auto decode_start = std::chrono::steady_clock::now();
    RunStatus status = RunStatus::complete;
    std::string text;
    StopStrings stops(request_.stop);
    for (int n = 0; n < n_new() && !stops.found(); ++n) {
      if (hooks_.cancelled()) {
        status = RunStatus::cancelled;
        break;
      }
      const auto step_start = std::chrono::steady_clock::now();
      hooks_.before_step(n);
      const bool draws = !request_.answer_ids || n >= static_cast<int>(request_.answer_ids->size());
      const std::int32_t given = draws ? 0 : (*request_.answer_ids)[static_cast<std::size_t>(n)];
      // What was drawn once has its piece again, so that a run that goes on says the same.
      const bool as_drawn = draws || request_.draw_on;
      const std::string piece = as_drawn ? answer_piece(request_.sampling.seed, n) : " t" + std::to_string(given);
      text += piece;
      stops.push(piece);
      ids_.push_back(draws ? token_id(piece) : given);
      pieces_.push_back(piece);
      send_step(prompt_len_ + n + 1, piece, seconds_since(step_start));
      hooks_.send(protocol::progress(id_, "decode", n + 1, n_new()));
      if (n == 0) hooks_.after_first_token();
      if (request_.oracle && n % kOracleEvery == kOracleEvery - 1)
        hooks_.send(protocol::to_json(OracleFacts{n_tokens(), recall(), false, {}, {}}, id_));
      ++timings_.decode_steps;
    }
    timings_.decode_s = seconds_since(decode_start);
    if (request_.oracle) hooks_.send(protocol::to_json(OracleFacts{n_tokens(), recall(), true, mass(), kinds()}, id_));
    hooks_.send(protocol::to_json(RunEnded{status, timings_, text.substr(0, stops.answer_bytes())}, id_));
  }

 private:
  int n_tokens() const { return static_cast<int>(ids_.size()); }
  int n_new() const {
    if (request_.draws()) return request_.max_tokens;
    return request_.answer_ids ? static_cast<int>(request_.answer_ids->size()) : 0;
  }

  // A chat as any template might write it, with what was asked of it.
  std::string prompt_text() const {
    if (request_.raw) return request_.prompt;
    std::string text;
    if (request_.chat.thinking) text += *request_.chat.thinking ? "[thinking] " : "[not thinking] ";
    if (!request_.chat.date.empty()) text += "[date " + request_.chat.date + "] ";
    if (request_.messages.empty()) return text + "[user] " + request_.prompt;
    for (const ChatMessage& message : request_.messages) text += "[" + message.role + "] " + message.content + " ";
    return text;
  }

  void start() {
    if (request_.prompt_ids.empty()) {
      tokenize(prompt_text(), ids_, pieces_);
    } else {
      for (const std::int32_t id : request_.prompt_ids) {
        ids_.push_back(id);
        pieces_.push_back(" t" + std::to_string(id));
      }
    }
    prompt_len_ = n_tokens();
    n_positions_ = prompt_len_ + request_.max_tokens;
    if (prompt_len_ == 0) throw Error({.file = "prompt", .found = "no token", .expected = "at least one"});
    if (n_positions_ > model_.max_positions) {
      throw Error({.file = "prompt",
                   .found = std::to_string(n_positions_) + " positions",
                   .expected = "at most " + std::to_string(model_.max_positions)});
    }
    request_.policy.geometry(n_positions_);  // refuses a budget that cannot hold sinks and window
    hooks_.send(protocol::to_json(RunStarted{.head = {.n_positions = n_positions_,
                                                      .chunk = request_.chunk,
                                                      .policy = request_.policy,
                                                      .scorer = hooks_.scorer,
                                                      .oracle = request_.oracle_spec,
                                                      .heads = {}},
                                             .ids = ids_,
                                             .pieces = pieces_},
                                  id_));
  }

  // Facts of the first n tokens that have not been sent yet.
  void send_step(int n, const std::string& piece, double seconds) {
    StepFacts facts;
    facts.n_tokens = n;
    if (!piece.empty()) {
      facts.ids.push_back(ids_.back());
      facts.pieces.push_back(piece);
    }
    facts.logprobs_from = sent_logprobs_;
    for (; sent_logprobs_ < n; ++sent_logprobs_)
      facts.logprobs.push_back(logprob(sent_logprobs_, ids_[sent_logprobs_]));
    for (int layer = 0; layer < model_.n_layers; ++layer) {
      for (int head = 0; head < model_.n_kv_heads; ++head) add_head_facts(facts, layer, head, n);
    }
    facts.seconds = seconds;
    hooks_.send(protocol::to_json(facts, id_));
  }

  void add_head_facts(StepFacts& facts, int layer, int head, int n) {
    const std::size_t row = static_cast<std::size_t>(layer) * model_.n_kv_heads + head;
    std::vector<float> scores(n);
    for (int t = 0; t < n; ++t) scores[t] = score(layer, head, t, pieces_[t]);
    std::vector<std::int32_t> evict_at(n);
    std::vector<Contest> contests;
    const RetentionPlan plan = policy_of(request_.policy).plan(request_.policy, {});
    const bool by_engine = !plan.follows_from_scores() && plan.source == ScoreSource::engine;
    policy_lifetimes(by_engine ? own_rule() : request_.policy, n_positions_, scores, n, evict_at, &contests);
    if (by_engine) contests.clear();  // its rule has none to show

    const int window = request_.policy.geometry(n_positions_).window;
    const bool has_scores = policy_of(request_.policy).info.needs_scorer || plan.source == ScoreSource::engine;
    for (int& t = scored_[row]; has_scores && t < n - window; ++t) {
      facts.scores.push_back({layer, head, t, scores[t]});
    }
    auto& sent = sent_.row(layer, head);
    sent.resize(n, kUndecided);
    for (int t = 0; t < n; ++t) {
      if (sent[t] == evict_at[t]) continue;
      sent[t] = evict_at[t];
      facts.lifetimes.push_back({layer, head, t, evict_at[t]});
    }
    for (std::size_t& i = contested_[row]; i < contests.size(); ++i) {
      contests[i].layer = static_cast<std::int16_t>(layer);
      contests[i].kv_head = static_cast<std::int16_t>(head);
      facts.contests.push_back(contests[i]);
    }
  }

  /// What this engine does under a policy whose rule is its own.
  PolicySpec own_rule() const {
    const RetentionGeometry geometry = request_.policy.geometry(n_positions_);
    return PolicySpec::parse("top-k:budget=" + std::to_string(geometry.budget()) + ",sinks=" +
                             std::to_string(geometry.n_sink) + ",window=" + std::to_string(geometry.window));
  }

  HeadSeries<float> mass() const {
    HeadSeries<float> mass(model_.n_layers, model_.n_kv_heads);
    for (int layer = 0; layer < model_.n_layers; ++layer) {
      for (int head = 0; head < model_.n_kv_heads; ++head) {
        for (int t = 0; t < n_tokens(); ++t) mass.row(layer, head).push_back(future_mass(layer, head, t, pieces_[t]));
      }
    }
    return mass;
  }

  /// Some other numbers of the same tokens.
  FutureKinds kinds() const {
    const auto times = [&](float factor) {
      HeadSeries<float> series = mass();
      for (int layer = 0; layer < model_.n_layers; ++layer) {
        for (int head = 0; head < model_.n_kv_heads; ++head) {
          for (float& value : series.row(layer, head)) value = std::min(1.0f, factor * value);
        }
      }
      return series;
    };
    return {.rms = times(2),
            .max = times(4),
            .value_norm = times(0.5f),
            .output_mean = mass(),
            .output_rms = times(2),
            .output_max = times(4)};
  }

  std::vector<float> recall() const {
    RunRecord run;
    run.model = model_;
    run.policy = request_.policy;
    run.n_positions = n_positions_;
    run.prompt_len = prompt_len_;
    run.ids = ids_;
    run.n_queries = n_tokens();
    run.evict_at = sent_;
    run.future_mass = mass();
    run.oracle_horizon = n_tokens();
    return head_metric(run, Metric::recall, n_tokens() - 1).values;
  }

  const RunRequest& request_;
  int id_;
  const ModelInfo& model_;
  const RunHooks& hooks_;
  std::vector<std::int32_t> ids_;
  BytePool pieces_;
  int prompt_len_ = 0, n_positions_ = 0, sent_logprobs_ = 0;
  LifetimeMap sent_;
  std::vector<int> scored_;             // per head: scores sent for tokens before this one
  std::vector<std::size_t> contested_;  // per head: contests sent
  RunTimings timings_;
};

}  // namespace

void play_run(const RunRequest& request, int id, const ModelInfo& model, const RunHooks& hooks) {
  Player(request, id, model, hooks).play();
}

namespace {

/// The record that a run over these tokens would leave, lifetimes alone.
RunRecord lifetimes_of(const ModelInfo& model, const std::vector<std::int32_t>& ids, const BytePool& pieces,
                       const PolicySpec& policy, int n_positions) {
  RunRecord run;
  run.model = model;
  run.policy = policy;
  run.n_positions = n_positions;
  run.ids = ids;
  run.n_queries = run.n_tokens();
  run.evict_at = LifetimeMap(model.n_layers, model.n_kv_heads);
  run.evict_at.resize(ids.size(), kUndecided);
  std::vector<float> scores(ids.size());
  for (int layer = 0; layer < model.n_layers; ++layer) {
    for (int head = 0; head < model.n_kv_heads; ++head) {
      for (int t = 0; t < run.n_tokens(); ++t) scores[t] = score(layer, head, t, pieces[t]);
      policy_lifetimes(policy, n_positions, scores, run.n_tokens(), run.evict_at.row(layer, head), nullptr);
    }
  }
  return run;
}

}  // namespace

void play_score(const ScoreRequest& request, int id, const ModelInfo& model, const RunHooks& hooks) {
  std::vector<std::int32_t> ids;
  BytePool pieces;
  if (!request.ids.empty()) {
    ids = request.ids;
    for (const std::int32_t token : ids) pieces.push_back(" t" + std::to_string(token));
  } else {
    tokenize(request.text, ids, pieces);
  }
  ScoreFacts facts{
      .dense = true, .prompt_len = request.prompt_len, .chunk = request.prompt_len > 0 ? 0 : request.chunk};
  const int n_positions = request.n_positions > 0 ? request.n_positions : static_cast<int>(ids.size());
  const RunRecord run = lifetimes_of(model, ids, pieces, request.policy, n_positions);
  for (int q = 0; q < run.n_tokens(); ++q) {
    const double share = kvscope::mean(head_metric(run, Metric::cache_share, q));
    facts.dense = facts.dense && share == 1;
    facts.logprobs.push_back(logprob(q, ids[q]) - static_cast<float>(1 - share));
    if (q > 0) facts.nll -= facts.logprobs.back() / std::max(1, run.n_tokens() - 1);
    if (request.choices) facts.greedy.push_back(q == 0 ? -1 : share < 0.5 ? (ids[q] + 1) % model.vocab_size : ids[q]);
  }
  facts.ids = ids;
  facts.policy = request.policy;
  facts.density = head_metric(run, Metric::density, run.n_tokens() - 1).values;
  facts.cache_size = mean_cache_size(run);
  hooks.send(protocol::done_score(id, facts));
}

}  // namespace kvscope::fake
