#pragma once
// What tokenizer.json says, checked; nothing of how it is used.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/files/tokenizer/added_tokens.h"
#include "engine/core/files/tokenizer/text_steps.h"

namespace kvscope {

struct TokenizerJson {
  std::vector<std::pair<std::string, std::int32_t>>
      vocab;  // as written: in the form of bytes, as the characters of ByteLevel
  std::vector<std::pair<std::string, std::string>> merges;  // by rank; both encodings
  std::vector<AddedToken> added;
  TextSteps steps;
  bool ignore_merges = false, byte_fallback = false, fuse_unk = false;
  std::optional<std::string> unk_token;
  std::vector<std::int32_t> before, after;  // ids that the post-processor puts around a single text

  /// Throws Error naming the key for what is malformed or not supported.
  static TokenizerJson load(const std::filesystem::path& path);
};

/// The highest id that is believed: ids index tables.
inline constexpr std::int32_t kMaxTokenId = (1 << 22) - 1;

}  // namespace kvscope
