// The one interpreter of a run's events. Each is read and checked as a whole before the record changes, so that a bad
// event leaves the run as it was.
#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/study/retention_metrics.h"

namespace kvscope::protocol {

using nlohmann::json;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::string range(std::int64_t end) { return "0 to " + std::to_string(end - 1); }

void check_ids(const RunRecord& run, const json& event, const std::vector<std::int32_t>& ids) {
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= run.model.vocab_size) {
      bad_field(event, "ids", "token id " + std::to_string(id), range(run.model.vocab_size));
    }
  }
}

void check_head(const RunRecord& run, const json& event, const char* key, int layer, int head) {
  if (layer < 0 || layer >= run.model.n_layers || head < 0 || head >= run.model.n_kv_heads) {
    bad_field(event, key, "layer " + std::to_string(layer) + ", head " + std::to_string(head),
              std::to_string(run.model.n_layers) + " layers of " + std::to_string(run.model.n_kv_heads) + " heads");
  }
}

void check_token(const json& event, const char* key, std::int32_t token, int n_tokens) {
  if (token < 0 || token >= n_tokens) bad_field(event, key, "token " + std::to_string(token), range(n_tokens));
}

void check_begun(const RunRecord& run, const json& event) {
  if (run.ids.empty()) bad_field(event, "type", "an event of a run that has not started", "started");
  if (run.status != RunStatus::running) bad_field(event, "type", "an event of a run that has ended", "nothing more");
}

/// A run without scores says what the model has.
ScorerInfo scorer_of(const RunRecord& run, const json& event) {
  if (!event.contains("scorer") || text(event, "scorer").empty()) return {.text = run.model.scorer};
  ScorerInfo scorer{.text = text(event, "scorer")};
  if (event.contains("scorer_kind")) scorer.kind = text(event, "scorer_kind");
  if (event.contains("scorer_delay"))
    scorer.delay = static_cast<int>(integer(event, "scorer_delay", -1, kMaxPositions));
  return scorer;
}

std::vector<std::uint8_t> local_heads_of(const RunRecord& run, const json& event) {
  if (!event.contains("local_heads")) return {};
  const std::vector<std::int32_t> local = unpack_i32(event, "local_heads");
  const std::size_t n_heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (!local.empty() && local.size() != n_heads)
    bad_field(event, "local_heads", std::to_string(local.size()) + " heads", std::to_string(n_heads) + ", or none");
  for (const std::int32_t value : local)
    if (value != 0 && value != 1) bad_field(event, "local_heads", std::to_string(value), "0 or 1");
  return {local.begin(), local.end()};
}

void apply_started(RunRecord& run, const json& event) {
  if (run.model.n_layers < 1 || run.model.n_kv_heads < 1) {
    bad_field(event, "type", "a run before a model was loaded", "load first");
  }
  if (!run.ids.empty()) bad_field(event, "type", "a second start of the same run", "one");
  const auto n_positions = static_cast<int>(integer(event, "n_positions", 1, kMaxPositions));
  const auto prompt_len = static_cast<int>(integer(event, "prompt_len", 1, n_positions));
  std::vector<std::int32_t> ids = unpack_i32(event, "ids");
  BytePool pieces = unpack_pool(event, "pieces");
  if (ids.size() != static_cast<std::size_t>(prompt_len) || pieces.size() != ids.size()) {
    bad_field(event, "ids", std::to_string(ids.size()) + " ids and " + std::to_string(pieces.size()) + " pieces",
              std::to_string(prompt_len) + " of each, as prompt_len says");
  }
  check_ids(run, event, ids);
  PolicySpec policy = PolicySpec::parse(text(event, "policy"));
  policy.geometry(n_positions);  // throws what finish_run() and the metrics would throw later

  run.n_positions = n_positions;
  run.prompt_len = prompt_len;
  run.policy = std::move(policy);
  if (event.contains("oracle_spec")) run.oracle = OracleSpec::parse(text(event, "oracle_spec"));
  run.scorer = scorer_of(run, event);
  run.local_heads = local_heads_of(run, event);
  run.ids = std::move(ids);
  run.pieces = std::move(pieces);
  run.logprobs.clear();
  run.evict_at = LifetimeMap(run.model.n_layers, run.model.n_kv_heads);
  run.evict_at.resize(run.ids.size(), kUndecided);
  run.scores = HeadSeries<float>(run.model.n_layers, run.model.n_kv_heads);
  run.contests.clear();
  run.reads.clear();
  run.changes.clear();
  run.future_mass = HeadSeries<float>();
  run.oracle_evict_at = LifetimeMap();
  run.oracle_horizon = 0;
  run.recall_so_far.clear();
  run.n_queries = 0;
  run.status = RunStatus::running;
  run.message.clear();
}

/// A token leaves once, after at least one query saw it, and does not come back.
void check_lifetimes(const RunRecord& run, const json& event, const StepFacts& facts, int n_tokens) {
  for (const auto& l : facts.lifetimes) {
    check_head(run, event, "lifetimes", l.layer, l.kv_head);
    check_token(event, "lifetimes", l.token, n_tokens);
    if (l.evict_at != kNever && (l.evict_at <= l.token || l.evict_at > run.n_positions)) {
      bad_field(event, "lifetimes", "evict_at " + std::to_string(l.evict_at) + " of token " + std::to_string(l.token),
                "NEVER or " + std::to_string(l.token + 1) + " to " + std::to_string(run.n_positions));
    }
    const std::vector<std::int32_t>& row = run.evict_at.row(l.layer, l.kv_head);
    const std::int32_t before = static_cast<std::size_t>(l.token) < row.size() ? row[l.token] : kUndecided;
    if (before != kUndecided && before != kNever && before != l.evict_at) {
      bad_field(event, "lifetimes",
                "another evict_at of token " + std::to_string(l.token) + ", which left at " + std::to_string(before),
                "a token leaves once");
    }
  }
}

/// q of the last contest of every head, -1 if there was none.
std::vector<std::int32_t> last_contests(const RunRecord& run) {
  std::vector<std::int32_t> last(static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads, -1);
  std::size_t missing = last.size();
  for (auto contest = run.contests.rbegin(); contest != run.contests.rend() && missing > 0; ++contest) {
    std::int32_t& q = last[static_cast<std::size_t>(contest->layer) * run.model.n_kv_heads + contest->kv_head];
    if (q >= 0) continue;
    q = contest->q;
    --missing;
  }
  return last;
}

void check_contests(const RunRecord& run, const json& event, const StepFacts& facts, int n_tokens) {
  if (facts.contests.empty()) return;
  std::vector<std::int32_t> last = last_contests(run);
  for (const Contest& c : facts.contests) {
    check_head(run, event, "contests", c.layer, c.kv_head);
    check_token(event, "contests", c.q, n_tokens);
    const bool newcomer_ok = c.newcomer >= 0 && c.newcomer <= c.q;
    // Attention may be least for the token that came last: it is newcomer and boundary in one.
    const bool apart = c.boundary != c.newcomer || c.evicted == c.newcomer;
    const bool boundary_ok = c.boundary >= -1 && c.boundary <= c.q && apart;
    const bool evicted_ok = c.evicted == -1 || c.evicted == c.newcomer || c.evicted == c.boundary;
    if (!newcomer_ok || !boundary_ok || !evicted_ok) {
      bad_field(event, "contests",
                "newcomer " + std::to_string(c.newcomer) + ", boundary " + std::to_string(c.boundary) + ", evicted " +
                    std::to_string(c.evicted) + " at query " + std::to_string(c.q),
                "two tokens up to the query, and one of them or -1 evicted");
    }
    std::int32_t& previous = last[static_cast<std::size_t>(c.layer) * run.model.n_kv_heads + c.kv_head];
    if (c.q <= previous) {
      bad_field(event, "contests", "query " + std::to_string(c.q) + " after query " + std::to_string(previous),
                "one contest a query and head, queries rising");
    }
    previous = c.q;
  }
}

/// (q, layer, kv_head, n, n pages), one after the other.
std::vector<PageRead> unpack_reads(const RunRecord& run, const json& event, const StepFacts& facts, int n_tokens) {
  std::vector<PageRead> reads;
  for (std::size_t i = 0; i < facts.reads.size();) {
    const bool whole = i + 4 <= facts.reads.size() && facts.reads[i + 3] >= 0 &&
                       i + 4 + static_cast<std::size_t>(facts.reads[i + 3]) <= facts.reads.size();
    if (!whole) bad_field(event, "reads", "an entry that ends in the middle", "q, layer, head, n and n pages");
    const std::int32_t* entry = facts.reads.data() + i;
    check_token(event, "reads", entry[0], n_tokens);
    check_head(run, event, "reads", entry[1], entry[2]);
    PageRead read{.q = entry[0],
                  .layer = static_cast<std::int16_t>(entry[1]),
                  .kv_head = static_cast<std::int16_t>(entry[2]),
                  .pages = {entry + 4, entry + 4 + entry[3]}};
    for (const std::int32_t page : read.pages) {
      if (page < 0 || page > n_tokens) bad_field(event, "reads", "page " + std::to_string(page), range(n_tokens));
    }
    i += 4 + read.pages.size();
    reads.push_back(std::move(read));
  }
  return reads;
}

void apply_policy(RunRecord& run, const json& event) {
  check_begun(run, event);
  const auto q = static_cast<std::int32_t>(integer(event, "q", run.n_queries, run.n_positions));
  run.changes.push_back({q, PolicySpec::parse(text(event, "policy"))});
}

void check_step(const RunRecord& run, const json& event, const StepFacts& facts) {
  check_ids(run, event, facts.ids);
  const int n_tokens = run.n_tokens() + static_cast<int>(facts.ids.size());
  if (n_tokens > run.n_positions) {
    bad_field(event, "ids", std::to_string(n_tokens) + " tokens",
              "at most n_positions = " + std::to_string(run.n_positions));
  }
  if (facts.n_tokens < run.n_queries || facts.n_tokens > n_tokens) {
    bad_field(event, "n_tokens", std::to_string(facts.n_tokens),
              std::to_string(run.n_queries) + " to " + std::to_string(n_tokens));
  }
  if (facts.logprobs_from + static_cast<std::int64_t>(facts.logprobs.size()) > n_tokens) {
    bad_field(event, "logprobs",
              std::to_string(facts.logprobs.size()) + " from position " + std::to_string(facts.logprobs_from),
              "positions " + range(n_tokens));
  }
  for (const auto& score : facts.scores) {
    check_head(run, event, "score_index", score.layer, score.kv_head);
    check_token(event, "score_index", score.token, n_tokens);
  }
  check_lifetimes(run, event, facts, n_tokens);
  check_contests(run, event, facts, n_tokens);
}

void apply_step(RunRecord& run, const json& event) {
  check_begun(run, event);
  const StepFacts facts = step_facts_from_json(event);
  check_step(run, event, facts);
  std::vector<PageRead> reads = unpack_reads(run, event, facts, run.n_tokens() + static_cast<int>(facts.ids.size()));

  run.ids.insert(run.ids.end(), facts.ids.begin(), facts.ids.end());
  for (std::size_t i = 0; i < facts.pieces.size(); ++i) run.pieces.push_back(facts.pieces[i]);
  run.n_queries = facts.n_tokens;
  const std::size_t logprobs_end = facts.logprobs_from + facts.logprobs.size();
  if (run.logprobs.size() < logprobs_end) run.logprobs.resize(logprobs_end, kNaN);
  std::copy(facts.logprobs.begin(), facts.logprobs.end(), run.logprobs.begin() + facts.logprobs_from);
  if (!facts.ids.empty()) run.evict_at.resize(run.ids.size(), kUndecided);
  for (const auto& l : facts.lifetimes) run.evict_at.row(l.layer, l.kv_head)[l.token] = l.evict_at;
  for (const auto& score : facts.scores) {
    std::vector<float>& row = run.scores.row(score.layer, score.kv_head);
    if (row.size() <= static_cast<std::size_t>(score.token)) row.resize(score.token + 1, kNaN);
    row[score.token] = score.value;
  }
  run.contests.insert(run.contests.end(), facts.contests.begin(), facts.contests.end());
  run.reads.insert(run.reads.end(), std::make_move_iterator(reads.begin()), std::make_move_iterator(reads.end()));
}

/// Cuts [n_layers][n_kv_heads][horizon] into rows. A mean of probabilities lies in [0, 1]; NaN where no query saw a
/// token.
HeadSeries<float> unpack_mass(const RunRecord& run, const json& event, int horizon) {
  const std::vector<float> mass = unpack_f32(event, "future_mass");
  const std::size_t n_heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (mass.size() != n_heads * horizon) {
    bad_field(event, "future_mass", std::to_string(mass.size()) + " numbers", std::to_string(n_heads * horizon));
  }
  constexpr float kRoundingOfMean = 1e-3f;  // bfloat16 probabilities may sum to a little more than 1
  for (const float value : mass) {
    const float most = run.oracle.normalised ? 1 : static_cast<float>(horizon);
    if (value < 0 || value > most + kRoundingOfMean) {
      bad_field(event, "future_mass", std::to_string(value), "0 to " + std::to_string(most) + ", or NaN");
    }
  }
  HeadSeries<float> rows(run.model.n_layers, run.model.n_kv_heads);
  auto from = mass.begin();
  for (int layer = 0; layer < run.model.n_layers; ++layer) {
    for (int head = 0; head < run.model.n_kv_heads; ++head, from += horizon) {
      rows.row(layer, head).assign(from, from + horizon);
    }
  }
  return rows;
}

void apply_oracle(RunRecord& run, const json& event) {
  check_begun(run, event);
  const auto horizon = static_cast<int>(integer(event, "horizon", 0, run.n_tokens()));
  std::vector<float> recall = unpack_f32(event, "recall");
  const std::size_t n_heads = static_cast<std::size_t>(run.model.n_layers) * run.model.n_kv_heads;
  if (recall.size() != n_heads) {
    bad_field(event, "recall", std::to_string(recall.size()) + " numbers", std::to_string(n_heads) + ", one a head");
  }
  if (boolean(event, "final")) {
    run.future_mass = unpack_mass(run, event, horizon);
    run.oracle_horizon = horizon;
    run.recall_so_far.clear();
    compute_oracle_lifetimes(run);
  } else {
    run.oracle_horizon = horizon;
    run.recall_so_far = std::move(recall);
  }
}

RunStatus status_from(const json& event) {
  const std::string name = text(event, "status");
  for (const RunStatus status : {RunStatus::complete, RunStatus::cancelled, RunStatus::failed}) {
    if (name == to_string(status)) return status;
  }
  bad_field(event, "status", "\"" + name + "\"", "complete, cancelled or failed");
}

void apply_done(RunRecord& run, const json& event) {
  check_begun(run, event);
  const RunStatus status = status_from(event);
  const RunTimings timings = timings_from_json(field(event, "timings", json::value_t::object));
  run.timings = timings;
  finish_run(run, status);
}

}  // namespace

void apply_event(RunRecord& run, const json& event) {
  const std::string type = text(event, "type");
  if (type == "started") {
    apply_started(run, event);
  } else if (type == "step") {
    apply_step(run, event);
  } else if (type == "policy") {
    apply_policy(run, event);
  } else if (type == "oracle") {
    apply_oracle(run, event);
  } else if (type == "done") {
    apply_done(run, event);
  } else if (type == "error") {
    finish_run(run, RunStatus::failed, error_from_event(event).what());
  }
}

}  // namespace kvscope::protocol
