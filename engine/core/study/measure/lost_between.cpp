#include "engine/core/study/measure/lost_between.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kvscope {
namespace {

/// Masses are complete when the run has ended.
bool has_masses(const RunRecord& run) { return run.status != RunStatus::running && !run.future_mass.empty(); }

bool sees(const std::vector<std::int32_t>& evict_at, std::int32_t q, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return visible(q, t, i < evict_at.size() ? evict_at[i] : kUndecided);
}

double mass_in(const std::vector<float>* masses, std::int32_t t) {
  const auto i = static_cast<std::size_t>(t);
  return masses == nullptr || i >= masses->size() || std::isnan((*masses)[i]) ? 0 : (*masses)[i];
}

/// Adds one head to the tokens [0, q].
std::int64_t add_head(const RunRecord& loser, const RunRecord& keeper, const std::vector<float>* masses, int layer,
                      int kv_head, std::vector<LostToken>& tokens, std::vector<double>& most) {
  const auto &gone = loser.evict_at.row(layer, kv_head), &kept = keeper.evict_at.row(layer, kv_head);
  const auto q = static_cast<std::int32_t>(tokens.size()) - 1;
  std::int64_t n = 0;
  for (std::int32_t t = 0; t <= q; ++t) {
    if (sees(gone, q, t) || !sees(kept, q, t)) continue;
    ++n;
    const auto i = static_cast<std::size_t>(t);
    LostToken& token = tokens[i];
    const double mass = mass_in(masses, t);
    if (token.n_heads == 0 || mass > most[i]) most[i] = mass, token.layer = layer, token.kv_head = kv_head;
    ++token.n_heads, token.mass += mass, token.t = t;
  }
  return n;
}

}  // namespace

LostBetween lost_between(const RunRecord& loser, const RunRecord& keeper, std::int32_t q, int most) {
  LostBetween lost;
  const RunRecord* teacher = has_masses(loser) ? &loser : has_masses(keeper) ? &keeper : nullptr;
  lost.mass_of = teacher == nullptr ? MassOf::none : teacher == &loser ? MassOf::loser : MassOf::keeper;
  std::vector<LostToken> tokens(static_cast<std::size_t>(std::max(0, q + 1)));
  std::vector<double> greatest(tokens.size(), 0);
  for (int layer = 0; layer < loser.evict_at.n_layers(); ++layer) {
    for (int head = 0; head < loser.evict_at.n_kv_heads(); ++head) {
      if (loser.is_local_by_model(layer, head) || keeper.is_local_by_model(layer, head)) continue;
      ++lost.n_heads;
      const std::vector<float>* masses = teacher == nullptr ? nullptr : &teacher->future_mass.row(layer, head);
      lost.n_pairs += add_head(loser, keeper, masses, layer, head, tokens, greatest);
    }
  }
  std::erase_if(tokens, [](const LostToken& token) { return token.n_heads == 0; });
  lost.n_tokens = static_cast<std::int32_t>(tokens.size());
  const auto matters_more = [](const LostToken& x, const LostToken& y) {
    return std::tuple(-x.mass, -x.n_heads, x.t) < std::tuple(-y.mass, -y.n_heads, y.t);
  };
  const auto shown = std::min(tokens.size(), static_cast<std::size_t>(std::max(0, most)));
  std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(shown), tokens.end(), matters_more);
  tokens.resize(shown);
  lost.tokens = std::move(tokens);
  return lost;
}

}  // namespace kvscope
