#pragma once
// Texts that end an answer.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvscope {

/// Looks for texts in an answer as its tokens come, across their borders. Cost per byte: the number of texts.
class StopStrings {
 public:
  static constexpr std::size_t kMaxTexts = 64, kMaxBytes = 4096;  // how many, and how long each

  StopStrings() = default;
  /// Throws Error (usage) for an empty text, one that is too long, or too many.
  explicit StopStrings(std::vector<std::string> texts);

  /// Takes the next token's bytes; true once a text was found. Later bytes change nothing.
  bool push(std::string_view bytes);
  bool found() const { return at_.has_value(); }
  /// Bytes of the answer before the text: of those that a token completes, the one that begins first. All bytes so far
  /// if none was found.
  std::size_t answer_bytes() const { return at_.value_or(size_); }
  /// Bytes that will be part of the answer whatever comes: answer_bytes() less an end that may begin a text.
  std::size_t sure_bytes() const;

 private:
  std::vector<std::string> texts_;
  std::string tail_;  // the last bytes, as many as a text may still begin in
  std::size_t size_ = 0, longest_ = 0;
  std::optional<std::size_t> at_;
};

}  // namespace kvscope
