#pragma once
// What one run has evicted at a query and another one still has: the evictions that feed a difference of their answers.

#include <cstdint>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

/// A token, and the heads in which it is lost.
struct LostToken {
  std::int32_t t = 0;
  int n_heads = 0;
  double mass = 0;             // the sum of its future mass over these heads
  int layer = 0, kv_head = 0;  // that of them in which the mass is greatest, of equal ones the first
  bool operator==(const LostToken&) const = default;
};

/// Whose record of the future mass ranks the tokens.
enum class MassOf : std::uint8_t {
  loser,   // of the run that lost them
  keeper,  // of the other one, as the loser recorded none
  none     // neither recorded any: the number of heads ranks them
};

struct LostBetween {
  MassOf mass_of = MassOf::none;
  int n_heads = 0;                // in which a policy decides, of both runs
  std::int64_t n_pairs = 0;       // (head, token)
  std::int32_t n_tokens = 0;      // that are lost in one head at least
  std::vector<LostToken> tokens;  // the `most` that matter most: by mass, then by heads, then the oldest
};

/// Tokens t <= q that query q of `loser` cannot see and query q of `keeper` can, head by head. The runs have one shape and read
/// the same tokens up to q, a query that both have made. Heads whose layer attends to its window alone by the model are left out.
LostBetween lost_between(const RunRecord& loser, const RunRecord& keeper, std::int32_t q, int most);

}  // namespace kvscope
