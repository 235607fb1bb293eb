#include "views/figure/lifetimes.h"

#include <algorithm>

#include "engine/core/support/error.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"

namespace kvscope::views {
namespace {

[[noreturn]] void refuse_life(const char* key, const std::string& found, const std::string& expected) {
  throw Error({ExitCode::bad_input, "", key, found, expected, ""});
}

/// `size` of `n` from `begin` on.
void check_life_part(const char* key, int begin, int size, int n) {
  if (begin < 0 || size < 0 || begin >= n) refuse_life(key, std::to_string(begin), "0 to " + std::to_string(n - 1));
}

}  // namespace

void check_lifetimes(const RunRecord& run, const LifetimesOptions& o) {
  resolve_query(run, -1);
  const int n = run.queries(), n_layers = run.evict_at.n_layers(), n_kv_heads = run.evict_at.n_kv_heads();
  if (n == 0) refuse_life("lifetimes", "a run without a query", "a run that has read a token");
  if (o.layer < 0 || o.layer >= n_layers || o.kv_head < 0 || o.kv_head >= n_kv_heads)
    refuse_life("layer, kv_head", std::to_string(o.layer) + ", " + std::to_string(o.kv_head),
                "below " + std::to_string(n_layers) + ", " + std::to_string(n_kv_heads));
  check_life_part("token", o.token, o.n_tokens, n);
  check_life_part("row", o.row, o.n_rows, o.n_tokens == 0 ? n - o.token : std::min(o.n_tokens, n - o.token));
  check_life_part("first", o.first, o.count, run.n_tokens());
  if (o.order == LifeOrder::cost && !has_cost(run))
    refuse_life("order", "cost, and the run has no oracle", "position or life, or a run with an oracle");
}

std::vector<TokenLife> lifetimes_of(const RunRecord& run, const std::vector<VerdictOfEviction>& verdicts,
                                    const LifetimesOptions& o) {
  check_lifetimes(run, o);
  const int n = run.queries(), n_tokens = o.n_tokens == 0 ? n - o.token : std::min(o.n_tokens, n - o.token);
  return token_lives(run, o.layer, o.kv_head, o.token, o.token + n_tokens - 1, verdicts, o.order);
}

TokenSpan lifetime_rows(const LifetimesOptions& o, std::size_t n_lives) {
  const int n = static_cast<int>(n_lives);
  return o.n_rows == 0 ? TokenSpan{0, n} : TokenSpan{o.row, o.row + std::min(o.n_rows, n - o.row)};
}

TokenSpan lifetime_queries(const RunRecord& run, const LifetimesOptions& o) {
  const int n = run.n_tokens();
  return o.count == 0 ? TokenSpan{0, n} : TokenSpan{o.first, o.first + std::min(o.count, n - o.first)};
}

std::string lifetimes_summary(const RunRecord& run, const LifetimesOptions& o, std::span<const TokenLife> lives) {
  const LifeCounts counts = count_lives(lives);
  std::string text = "L" + std::to_string(o.layer) + " H" + std::to_string(o.kv_head) + ", " + run.policy.name + ": ";
  const std::string tokens = std::to_string(counts.tokens) + (counts.tokens == 1 ? " token" : " tokens");
  if (counts.evicted == 0) return text + tokens + ", none evicted";
  text += std::to_string(counts.evicted) + " of " + tokens + " evicted";
  if (!has_cost(run)) return text + (run.status == RunStatus::running ? "" : ", no oracle");
  return text + ", " + std::to_string(counts.wrong) + " wrong, cost " + format_number(counts.cost);
}

std::string_view verdict_of_life(const TokenLife& life) {
  if (!life.evicted) return "";
  return life.verdict == EvictionVerdict::wrong ? "wrong" : life.verdict == EvictionVerdict::right ? "right" : "none";
}

}  // namespace kvscope::views
