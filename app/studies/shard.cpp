#include "app/studies/shard.h"

#include <charconv>

#include "app/support/usage.h"
#include "engine/core/support/json_file.h"

namespace kvscope::app {

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char *const begin = text.data(), *const end = begin + text.size();
  const auto index = std::from_chars(begin, end, shard.index);
  const bool slash = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  const auto of = std::from_chars(slash ? index.ptr + 1 : end, end, shard.of);
  if (slash && of.ec == std::errc() && of.ptr == end && shard.index >= 0 && shard.index < shard.of) return shard;
  usage_error("--shard", in_quotes(text), "I/N with I from 0 to N - 1, for example 0/4",
              "under Slurm: --shard $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT");
}

}  // namespace kvscope::app
