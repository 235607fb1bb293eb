#include "engine/core/record/check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "engine/core/record/run_fields.h"
#include "engine/core/support/text.h"

namespace kvscope {
namespace {

constexpr float kRounding = 1e-3f;  // bfloat16 probabilities may sum to a little more than 1

std::string range(std::int64_t end) { return "0 to " + std::to_string(end - 1); }

std::size_t n_heads(const ModelInfo& model) { return static_cast<std::size_t>(model.n_layers) * model.n_kv_heads; }

void check_ids(const ModelInfo& model, std::span<const std::int32_t> ids) {
  const std::int64_t end = model.vocab_size > 0 ? model.vocab_size : INT32_MAX;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= end) throw RunFault("ids", "token id " + std::to_string(id), range(end));
  }
}

void check_pieces(const BytePool& pieces, std::size_t n_ids) {
  if (pieces.size() != n_ids)
    throw RunFault("pieces", std::to_string(pieces.size()) + " pieces", std::to_string(n_ids) + ", one per token");
}

void check_head(const ModelInfo& model, const char* field, int layer, int head) {
  if (layer >= 0 && layer < model.n_layers && head >= 0 && head < model.n_kv_heads) return;
  throw RunFault(field, "layer " + std::to_string(layer) + ", head " + std::to_string(head),
                 std::to_string(model.n_layers) + " layers of " + std::to_string(model.n_kv_heads) + " heads");
}

void check_token(const char* field, std::int32_t token, int n_tokens) {
  if (token < 0 || token >= n_tokens) throw RunFault(field, "token " + std::to_string(token), range(n_tokens));
}

void check_lifetime(const char* field, std::int32_t token, std::int32_t evict_at, int n_positions) {
  if (evict_at == kNever || (evict_at > token && evict_at <= n_positions)) return;
  throw RunFault(field, "evict_at " + std::to_string(evict_at) + " of token " + std::to_string(token),
                 "NEVER or " + std::to_string(token + 1) + " to " + std::to_string(n_positions));
}

/// Queries of each head's contests, in the order in which they come.
class ContestCheck {
 public:
  explicit ContestCheck(const ModelInfo& model) : model_(model), last_(n_heads(model), -1) {}

  /// Takes what the run holds as right.
  void resume(const std::vector<Contest>& contests) {
    std::size_t missing = last_.size();
    for (auto contest = contests.rbegin(); contest != contests.rend() && missing > 0; ++contest) {
      if (last(*contest) >= 0) continue;
      last(*contest) = contest->q;
      --missing;
    }
  }

  void check(const Contest& c, int n_tokens) {
    check_head(model_, "contests", c.layer, c.kv_head);
    check_token("contests", c.q, n_tokens);
    const bool newcomer_ok = c.newcomer >= 0 && c.newcomer <= c.q;
    // Attention may be least for the token that came last: it is newcomer and boundary in one.
    const bool apart = c.boundary != c.newcomer || c.evicted == c.newcomer;
    const bool boundary_ok = c.boundary >= -1 && c.boundary <= c.q && apart;
    const bool evicted_ok = c.evicted == -1 || c.evicted == c.newcomer || c.evicted == c.boundary;
    if (!newcomer_ok || !boundary_ok || !evicted_ok) {
      throw RunFault("contests",
                     "newcomer " + std::to_string(c.newcomer) + ", boundary " + std::to_string(c.boundary) +
                         ", evicted " + std::to_string(c.evicted) + " at query " + std::to_string(c.q),
                     "two tokens up to the query, and one of them or -1 evicted");
    }
    if (c.q <= last(c)) {
      throw RunFault("contests", "query " + std::to_string(c.q) + " after query " + std::to_string(last(c)),
                     "one contest per query and head, queries rising");
    }
    last(c) = c.q;
  }

 private:
  std::int32_t& last(const Contest& c) {
    return last_[static_cast<std::size_t>(c.layer) * model_.n_kv_heads + c.kv_head];
  }
  const ModelInfo& model_;
  std::vector<std::int32_t> last_;
};

/// `last_q`: of the read before, and then of this one.
void check_read(const ModelInfo& model, const PageRead& read, int n_tokens, std::int32_t& last_q) {
  check_token("reads", read.q, n_tokens);
  check_head(model, "reads", read.layer, read.kv_head);
  std::int32_t before = -1;
  for (const std::int32_t page : read.pages) {
    if (page < 0 || page > n_tokens) throw RunFault("reads", "page " + std::to_string(page), range(n_tokens));
    if (page <= before)
      throw RunFault("reads", "page " + std::to_string(page) + " after page " + std::to_string(before), "pages rising");
    before = page;
  }
  if (read.q < last_q) {
    throw RunFault("reads", "query " + std::to_string(read.q) + " after query " + std::to_string(last_q),
                   "queries rising");
  }
  last_q = read.q;
}

/// Probabilities, unless they were made with the normaliser of what the policy kept (KVpop eq. 34): that of an evicted
/// key may be any number. Weighed ones have no bound either.
void check_mass(const char* field, std::span<const float> row, bool is_probability) {
  const float most = is_probability ? 1 + kRounding : std::numeric_limits<float>::max();
  for (const float value : row) {
    if (value < 0 || value > most) {
      throw RunFault(field, std::to_string(value), is_probability ? "0 to 1, or NaN" : "0 or more, or NaN");
    }
  }
}

/// Calls check(field, series, whether its values are probabilities) for every series that the oracle goes by.
template <typename Run, typename Check>
void visit_masses(const Run& run, const OracleSpec& oracle, Check check) {
  check("future_mass", run.future_mass, !oracle.sparse_lse);
  visit_future(run.future, [&](const char* field, const HeadSeries<float>& series) {
    check(field, series, !oracle.sparse_lse && std::string_view(field).starts_with("future_"));
  });
}

/// `field` is "recall" on the wire, "recall_so_far" in a record.
void check_recall(const char* field, const ModelInfo& model, const std::vector<float>& recall) {
  if (recall.size() != n_heads(model))
    throw RunFault(field, std::to_string(recall.size()) + " numbers",
                   std::to_string(n_heads(model)) + ", one per head");
  check_mass(field, recall, true);
}

/// NaN where there is none.
void check_logprobs(std::span<const float> logprobs) {
  for (const float value : logprobs) {
    if (value > kRounding) throw RunFault("logprobs", std::to_string(value), "0 or less, or NaN");
  }
}

/// Of a struct that run_fields.h describes.
template <typename T>
void check_fields(const T& fields) {
  visit_fields(fields, []<typename Range>(const char* name, const auto& value, Range range) {
    if constexpr (std::is_same_v<Range, FieldRange>) {
      const auto number = as_number(value);
      if (number >= range.min && number <= range.max) return;  // never true of NaN
      throw RunFault(name, number_text(number), number_text(range.min) + " to " + number_text(range.max));
    }
  });
}

void check_heads(const ModelInfo& model, const HeadRules& heads) {
  if (!heads.empty() && heads.size() != n_heads(model))
    throw RunFault("heads", std::to_string(heads.size()) + " heads", std::to_string(n_heads(model)) + ", or none");
  for (const HeadRule& head : heads) check_fields(head);
}

void check_begun(const RunRecord& run) {
  if (run.ids.empty()) throw RunFault("type", "an event of a run that has not started", "started");
  if (run.status != RunStatus::running) throw RunFault("type", "an event of a run that has ended", "nothing more");
}

void check_count(const char* field, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return;
  throw RunFault(field, std::to_string(value), std::to_string(min) + " to " + std::to_string(max));
}

void check_head(const RunHead& head) {
  visit_fields(head, [](std::string_view name, int value, FieldRange range) {
    check_count(name.data(), value, static_cast<std::int64_t>(range.min), static_cast<std::int64_t>(range.max));
  });
}

/// Of a row or a column.
void check_length(const char* field, std::size_t found, std::int64_t expected) {
  if (static_cast<std::int64_t>(found) == expected) return;
  throw RunFault(field, std::to_string(found) + " tokens", std::to_string(expected));
}

/// A token leaves once, after at least one query saw it, and does not come back.
void check_lifetimes(const RunRecord& run, const StepFacts& facts, int n_tokens) {
  for (const auto& l : facts.lifetimes) {
    check_head(run.model, "evict_at", l.layer, l.kv_head);
    check_token("evict_at", l.token, n_tokens);
    check_lifetime("evict_at", l.token, l.evict_at, run.n_positions);
    const std::vector<std::int32_t>& row = run.evict_at.row(l.layer, l.kv_head);
    const std::int32_t before = static_cast<std::size_t>(l.token) < row.size() ? row[l.token] : kUndecided;
    if (before != kUndecided && before != kNever && before != l.evict_at) {
      throw RunFault(
          "evict_at",
          "another evict_at of token " + std::to_string(l.token) + ", which left at " + std::to_string(before),
          "a token is evicted once");
    }
  }
}

/// Every row of a series that is there: as many as the model has heads, each of so many tokens.
template <typename T, typename Check>
void check_rows(const RunRecord& run, const char* field, const HeadSeries<T>& series, std::int64_t length,
                Check check) {
  if (series.empty()) return;
  if (series.n_layers() != run.model.n_layers || series.n_kv_heads() != run.model.n_kv_heads) {
    throw RunFault(field, std::to_string(series.n_layers()) + " layers of " + std::to_string(series.n_kv_heads()),
                   std::to_string(run.model.n_layers) + " of " + std::to_string(run.model.n_kv_heads));
  }
  for (int layer = 0; layer < series.n_layers(); ++layer) {
    for (int head = 0; head < series.n_kv_heads(); ++head) {
      check_length(field, series.row(layer, head).size(), length);
      check(series.row(layer, head));
    }
  }
}

/// n_queries: how long every row must be.
void check_error_rows(const RunRecord& run, const OutputError& error, int n_queries) {
  visit_fields(error, [&](const char* field, const HeadSeries<float>& series, FieldRange norm) {
    const bool of_layers = &series == &error.layer_damage || &series == &error.layer_output;
    const int width = of_layers ? 1 : run.model.n_kv_heads;
    if (series.n_layers() != run.model.n_layers || series.n_kv_heads() != width) {
      throw RunFault(field, std::to_string(series.n_layers()) + " x " + std::to_string(series.n_kv_heads()) + " rows",
                     std::to_string(run.model.n_layers) + " x " + std::to_string(width));
    }
    for (int layer = 0; layer < series.n_layers(); ++layer) {
      for (int head = 0; head < width; ++head) {
        const std::vector<float>& row = series.row(layer, head);
        check_length(field, row.size(), n_queries);
        for (const float value : row) {
          if (value < norm.min || value > norm.max)
            throw RunFault(field, std::to_string(value), norm.max > 2 ? "a norm, or NaN" : "0 to 1, or NaN");
        }
      }
    }
  });
}

void check_lifetime_rows(const RunRecord& run) {
  if (run.evict_at.empty() && !run.ids.empty()) throw RunFault("evict_at", "no rows", "one per layer and head");
  check_rows(run, "evict_at", run.evict_at, run.n_tokens(), [&](const std::vector<std::int32_t>& row) {
    for (std::size_t t = 0; t < row.size(); ++t) {
      if (row[t] != kUndecided) check_lifetime("evict_at", static_cast<std::int32_t>(t), row[t], run.n_positions);
    }
  });
}

void check_masses(const RunRecord& run) {
  check_count("oracle_horizon", run.oracle_horizon, 0, run.n_tokens());
  visit_masses(run, run.oracle, [&](const char* field, const HeadSeries<float>& series, bool is_probability) {
    check_rows(run, field, series, run.n_tokens(),
               [&](const std::vector<float>& row) { check_mass(field, row, is_probability); });
  });
  if (!run.recall_so_far.empty()) check_recall("recall_so_far", run.model, run.recall_so_far);
}

/// Of one of each prompt and query, as a whole run has them.
void check_counts(const RunRecord& run) {
  const int n = run.n_tokens();
  if (run.status == RunStatus::running && n > 0) throw RunFault("status", "running", "a run that has ended");
  constexpr int kAny = std::numeric_limits<int>::max();
  check_count("n_positions", run.n_positions, n, kMaxPositions);
  check_head(run);
  check_count("prompt_len", run.prompt_len, std::min(n, 1), n);
  // 0: not known. The last token of a whole run need not be fed, all others were.
  const bool whole = run.status == RunStatus::complete && run.n_queries != 0;
  check_count("n_queries", run.n_queries, whole ? n - 1 : 0, n);
  check_count("prompt_index", run.prompt_index, -1, kAny);
  check_count("scorer_delay", run.scorer.delay, -1, kMaxPositions);
  check_length("pieces", run.pieces.size(), n);
  check_length("logprobs", run.logprobs.size(), n);
}

/// In the order of their queries, and each of them one that can be over so many positions.
void check_policies(const RunRecord& run) {
  if (!run.ids.empty()) run.policy.geometry(run.n_positions);
  std::int32_t last_q = 0;
  for (const PolicyChange& change : run.changes) {
    check_count("changes", change.q, last_q, run.n_positions);
    change.policy.geometry(run.n_positions);
    last_q = change.q;
  }
}

}  // namespace

RunFault::RunFault(const char* field, std::string found, std::string expected)
    : Error({.file = "run", .where = field, .found = std::move(found), .expected = std::move(expected)}) {}

void check_started(const RunRecord& run, const RunStarted& started) {
  if (run.model.n_layers < 1 || run.model.n_kv_heads < 1) {
    throw RunFault("type", "a run before a model was loaded", "load first");
  }
  if (!run.ids.empty()) throw RunFault("type", "a second start of the same run", "one");
  check_count("n_positions", started.head.n_positions, 1, kMaxPositions);
  check_head(started.head);
  check_count("prompt_len", static_cast<std::int64_t>(started.ids.size()), 1, started.head.n_positions);
  check_pieces(started.pieces, started.ids.size());
  check_ids(run.model, started.ids);
  check_heads(run.model, started.head.heads);
  started.head.policy.geometry(started.head.n_positions);  // throws what finish_run() and the metrics would throw later
}

void check_step(const RunRecord& run, const StepFacts& facts) {
  check_begun(run);
  check_ids(run.model, facts.ids);
  check_pieces(facts.pieces, facts.ids.size());
  const int n_tokens = run.n_tokens() + static_cast<int>(facts.ids.size());
  if (n_tokens > run.n_positions) {
    throw RunFault("ids", std::to_string(n_tokens) + " tokens",
                   "at most n_positions = " + std::to_string(run.n_positions));
  }
  check_count("n_tokens", facts.n_tokens, run.n_queries, n_tokens);
  if (facts.logprobs_from < 0 || facts.logprobs_from + static_cast<std::int64_t>(facts.logprobs.size()) > n_tokens) {
    throw RunFault("logprobs",
                   std::to_string(facts.logprobs.size()) + " from position " + std::to_string(facts.logprobs_from),
                   "positions " + range(n_tokens));
  }
  check_logprobs(facts.logprobs);
  for (const auto& score : facts.scores) {
    check_head(run.model, "scores", score.layer, score.kv_head);
    check_token("scores", score.token, n_tokens);
  }
  check_lifetimes(run, facts, n_tokens);
  if (!facts.contests.empty()) {
    ContestCheck contests(run.model);
    contests.resume(run.contests);
    for (const Contest& contest : facts.contests) contests.check(contest, n_tokens);
  }
  std::int32_t last_q = run.reads.empty() ? 0 : run.reads.back().q;
  for (const PageRead& read : facts.reads) check_read(run.model, read, n_tokens, last_q);
  check_heads(run.model, facts.heads);
}

void check_oracle(const RunRecord& run, const OracleFacts& facts) {
  check_begun(run);
  check_count("horizon", facts.horizon, 0, run.n_tokens());
  check_recall("recall", run.model, facts.recall);
  if (!facts.final) return;
  visit_masses(facts, run.oracle, [&](const char* field, const HeadSeries<float>& series, bool is_probability) {
    check_rows(run, field, series, facts.horizon,
               [&](const std::vector<float>& row) { check_mass(field, row, is_probability); });
  });
}

void check_output_error(const RunRecord& run, const OutputErrorFacts& facts) {
  check_begun(run);
  check_count("n_queries", facts.error.n_queries(), 1, run.n_tokens());
  check_error_rows(run, facts.error, run.queries());
}

void check_change(const RunRecord& run, const PolicyChange& change) {
  check_begun(run);
  const std::int32_t earliest = run.changes.empty() ? run.n_queries : std::max(run.n_queries, run.changes.back().q);
  check_count("q", change.q, earliest, run.n_positions);
  change.policy.geometry(run.n_positions);
}

void check_ended(const RunRecord& run) { check_begun(run); }

void check_run(const RunRecord& run) {
  check_counts(run);
  check_fields(run.sampling);
  check_fields(run.timings);
  check_ids(run.model, run.ids);
  check_logprobs(run.logprobs);
  check_heads(run.model, run.heads);
  check_policies(run);
  check_lifetime_rows(run);
  check_rows(run, "scores", run.scores, run.n_tokens(), [](const std::vector<float>&) {});
  ContestCheck contests(run.model);
  for (const Contest& contest : run.contests) contests.check(contest, run.n_tokens());
  std::int32_t last_q = 0;
  for (const PageRead& read : run.reads) check_read(run.model, read, run.n_tokens(), last_q);
  check_masses(run);
  if (!run.output_error.empty()) check_error_rows(run, run.output_error, run.queries());
}

}  // namespace kvscope
