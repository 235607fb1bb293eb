#include "views/widgets/strip_legend.h"

#include <algorithm>

#include "views/figure/colormap.h"
#include "views/figure/figure_builder.h"
#include "views/figure/token_facts.h"

namespace kvscope::views {

Colour soft(const Theme& theme, Colour colour) { return mix(theme.palette.panel, colour, theme.dark ? 0.62 : 0.85); }

std::vector<Swatch> strip_swatches(const Theme& theme, const RunRecord& run, ColourMode colour, std::int32_t q,
                                   ScoreRange scores) {
  std::vector<Swatch> swatches;
  switch (colour) {
    case ColourMode::state:
      for (TokenState s : {TokenState::sink, TokenState::window, TokenState::kept, TokenState::evicted}) {
        swatches.push_back(
            {soft(theme, state_colour(s, theme.dark)), std::string(state_name(s)), s == TokenState::evicted});
      }
      if (!run.reads.empty())
        swatches.push_back({soft(theme, state_colour(TokenState::unread, theme.dark)),
                            std::string(state_name(TokenState::unread)) + " by this query"});
      if (run.status == RunStatus::running && q >= run.queries())
        swatches.push_back({{0, 0, 0, 0}, std::string(state_name(TokenState::undecided)), false, true});
      break;
    case ColourMode::oracle:
      for (Verdict v : {Verdict::kept_rightly, Verdict::kept_wrongly, Verdict::missed, Verdict::dropped_rightly}) {
        swatches.push_back({soft(theme, verdict_colour(v, theme.dark)), std::string(verdict_name(v)),
                            v == Verdict::missed || v == Verdict::dropped_rightly});
      }
      break;
    case ColourMode::score:
      for (double f : {0.0, 0.5, 1.0}) {
        swatches.push_back({sample(theme.maps, f), format_number(scores.lo + f * (scores.hi - scores.lo))});
      }
      swatches.push_back({{0, 0, 0, 0}, "no score" + std::string(makes_scores(run) ? " yet" : ""), false, true});
      break;
    case ColourMode::kept_heads: {
      const int n = run.evict_at.n_kv_heads();
      for (int k = 0; k <= n; k += std::max(1, n / 4)) {
        swatches.push_back(
            {sample(theme.maps, static_cast<double>(k) / n), std::to_string(k) + " of " + std::to_string(n)});
      }
      swatches.push_back({{0, 0, 0, 0}, "always kept: sinks and window", false, true});
      break;
    }
  }
  return swatches;
}

}  // namespace kvscope::views
