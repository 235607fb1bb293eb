#pragma once
// Which KV heads of a hybrid stay global: the strategies of SP-KV section 4.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kvscope {

struct HeadsOfModel;

/// A takes every fourth layer from layer 0 on and the last, B from layer 3 on and the last, C draws heads, D takes those
/// of greatest value (density, or alpha of a head directory).
enum class HeadStrategy : std::uint8_t { a, b, c, d };
inline constexpr std::string_view kHeadStrategies[] = {"a", "b", "c", "d"};  // by their numbers

/// How many heads the strategy makes global by itself, which A and B do; none of C and D, which are asked for a number.
std::optional<int> own_global_heads(HeadStrategy strategy, const HeadsOfModel& heads);

/// [n_layers * n_kv_heads] 1 for a local head. Of C and D, all but `n_global` heads; `seed` is of C. D throws
/// std::invalid_argument if heads.alpha does not have a value for each head; of equal ones the earlier head is global.
std::vector<std::uint8_t> local_heads_by(HeadStrategy strategy, const HeadsOfModel& heads, int n_global,
                                         std::uint64_t seed = 0);

}  // namespace kvscope
