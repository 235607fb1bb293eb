#pragma once
// Which heads of a model stay global, by a value for each: SP-KV's strategies, and two that keep to the shape of a model.

#include <optional>
#include <string>
#include <string_view>

#include "engine/core/study/heads/head_shape.h"
#include "engine/core/study/heads/head_signal.h"

namespace kvscope {

/// a to d are those of HeadStrategy. capped takes the heads of greatest value of which no layer has more than a cap; layers
/// takes whole layers of greatest mean value.
enum class ChoiceRule : std::uint8_t { a, b, c, d, capped, layers };
inline constexpr std::string_view kChoiceRules[] = {"a", "b", "c", "d", "capped", "layers"};  // by their numbers

struct ChoiceQuestion {
  ChoiceRule rule = ChoiceRule::d;
  int n_global = 0;        // heads; of layers rounded to whole layers, of a and b not asked for
  std::uint64_t seed = 0;  // of c
  int cap = 0;             // of capped, heads a layer; 0: the smallest that leaves room for n_global
};

/// How many heads a and b take; nothing of the others, which are asked for a number.
std::optional<int> own_count(ChoiceRule rule, const HeadShape& shape);

/// Of equal values the lower layer and the lower head go first, as in choose_heads(). `values` may be empty for a, b and c.
/// Throws Error (usage) for more heads than the model, or the cap, has room for.
GlobalHeads choose_global(const HeadShape& shape, const HeadValues& values, const ChoiceQuestion& question);

/// A budget for each head in place of all or nothing (AdaKV's way): shares d_h in proportion to the values, none above 1,
///
///     d_h = min(1, lambda max(v_h, 0)),   sum_h d_h = total
///
/// What heads with values cannot take goes to the others in equal parts. Throws Error (usage) for a total below 0 or above the
/// number of heads.
HeadValues proportional_shares(const HeadValues& values, double total);

}  // namespace kvscope
