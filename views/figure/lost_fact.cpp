#include "views/figure/lost_fact.h"

#include <algorithm>
#include <numeric>

#include "engine/core/support/error.h"
#include "engine/core/support/text.h"
#include "views/figure/caption.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_text.h"

namespace kvscope::views {
namespace {

constexpr std::size_t kMostOfName = 40;  // code points

void check_lost_fact(std::span<const RunRecord* const> runs, const LostFactOptions& o) {
  const auto refuse_fact = [](const std::string& where, const std::string& found, const std::string& expected) {
    throw Error({ExitCode::bad_input, "", where, found, expected, ""});
  };
  if (runs.empty()) refuse_fact("lost_fact", "no run", "at least one");
  for (const RunRecord* run : runs) resolve_query(*run, -1);
  const int n = runs[0]->n_tokens();
  if (o.token < 0 || o.token >= n) refuse_fact("token", std::to_string(o.token), "0 to " + std::to_string(n - 1));
  if (o.n_tokens < 1) refuse_fact("n_tokens", std::to_string(o.n_tokens), "at least 1");
  if (o.first < 0 || o.count < 0 || (o.count > 0 && o.first >= n))
    refuse_fact("first", std::to_string(o.first), "0 to " + std::to_string(n - 1));
  const auto span = [&](const RunRecord& run) {
    const auto begin = static_cast<std::size_t>(o.token);
    const std::span<const std::int32_t> ids(run.ids);
    return begin >= ids.size() ? ids.first(0)
                               : ids.subspan(begin, std::min(ids.size() - begin, static_cast<std::size_t>(o.n_tokens)));
  };
  for (const RunRecord* run : runs) {
    if (!std::ranges::equal(span(*run), span(*runs[0])))
      refuse_fact("lost_fact", "runs with other tokens in the span", "runs that read the same text");
  }
}

std::vector<int> rows_of(const SpanLoss& loss, HeadOrder order) {
  std::vector<int> rows(loss.heads.size());
  std::iota(rows.begin(), rows.end(), 0);
  if (order == HeadOrder::mass) {
    std::ranges::stable_sort(rows, std::greater<>(),
                             [&](int row) { return loss.heads[static_cast<std::size_t>(row)].mass_lost; });
  }
  return rows;
}

std::string heads_text(int n) { return std::to_string(n) + (n == 1 ? " head" : " heads"); }

std::string query_words(const RunRecord& run, const SpanLoss& loss) {
  return loss.answer == run.prompt_len ? "at the answer"
                                       : "at query " + std::to_string(loss.answer) + ", the last one,";
}

/// "Mass lost: 3.2", or why it is not known.
std::string mass_words(const RunRecord& run, const SpanLoss& loss) {
  if (!run.future_mass.empty()) return "Mass lost: " + format_number(loss.mass_lost);
  return run.status == RunStatus::running ? "The mass lost is known when the run has ended"
                                          : "The mass lost is not known, because the run has no oracle";
}

}  // namespace

std::string run_name(std::span<const std::string> names, std::size_t run) {
  if (run < names.size() && !names[run].empty()) return names[run];
  return run < 26 ? std::string(1, static_cast<char>('A' + run)) : "run " + std::to_string(run + 1);
}

EvictionVerdicts verdicts_of(const RunRecord& run) {
  return run.status == RunStatus::running || run.future_mass.empty() ? EvictionVerdicts() : eviction_verdicts(run);
}

std::vector<LostFactRun> lost_fact_runs(std::span<const RunRecord* const> runs,
                                        std::span<const EvictionVerdicts* const> verdicts,
                                        const LostFactOptions& options) {
  check_lost_fact(runs, options);
  std::vector<LostFactRun> lost;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const int last = static_cast<int>(
        std::min<std::int64_t>(std::int64_t{options.token} + options.n_tokens, runs[i]->n_tokens()) - 1);
    LostFactRun& run = lost.emplace_back();
    run.loss = span_loss(*runs[i], options.token, last, *verdicts[i]);
    run.rows = rows_of(run.loss, options.order);
  }
  return lost;
}

std::string span_name(const RunRecord& run, const SpanLoss& loss) {
  std::string bytes;
  for (std::int32_t t = loss.first; t <= loss.last; ++t) {
    if (static_cast<std::size_t>(t) < run.pieces.size()) bytes += run.pieces[static_cast<std::size_t>(t)];
    if (bytes.size() > 8 * kMostOfName) break;
  }
  const std::string text = token_text(bytes);
  std::size_t end = 0;
  for (std::size_t i = 0; i < kMostOfName && end < text.size(); ++i) next_code_point(text, end);
  const std::string name = "\"" + text.substr(0, end) + (end < text.size() ? "…\"" : "\"");
  return loss.n_tokens() == 1 ? name + " (token " + std::to_string(loss.first) + ")"
                              : name + " (" + std::to_string(loss.n_tokens()) + " tokens)";
}

std::string span_sentence(const RunRecord& run, const SpanLoss& loss) {
  const int n = static_cast<int>(loss.heads.size());
  if (loss.n_tokens() < 1) return "the run has not read it yet.";
  if (n == 0) return "no policy decides in this model: every layer attends to its window alone.";
  if (loss.evicted == 0) return "no head evicts any of it. All " + heads_text(n) + " have it to the end.";
  std::string text = query_words(run, loss) + " " + std::to_string(loss.n_all) + " of " + heads_text(n) +
                     (loss.n_all == 1 ? " still has" : " still have") + " all of it, " + std::to_string(loss.n_none) +
                     (loss.n_none == 1 ? " has" : " have") + " none. " + mass_words(run, loss) + ".";
  text += " To keep it in every head to the end would cost ";
  return text + (loss.bytes > 0 ? bytes_text(loss.bytes) : std::to_string(loss.evicted) + " cache entries") + ".";
}

std::string span_summary(const RunRecord& run, const SpanLoss& loss) {
  if (loss.n_tokens() < 1) return "not read yet";
  std::string text = std::to_string(loss.n_all) + " of " + heads_text(static_cast<int>(loss.heads.size())) +
                     (loss.n_all == 1 ? " has" : " have") + " all, " + std::to_string(loss.n_none) + " none";
  if (!run.future_mass.empty()) text += "; mass lost " + format_number(loss.mass_lost);
  return text;
}

}  // namespace kvscope::views
