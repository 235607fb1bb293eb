#include "engine/core/files/tokenizer/stop_strings.h"

#include <algorithm>

#include "engine/core/support/error.h"

namespace kvscope {

StopStrings::StopStrings(std::vector<std::string> texts) : texts_(std::move(texts)) {
  const auto fail = [](std::string found, std::string expected) {
    throw Error({.code = ExitCode::usage, .file = "stop", .found = std::move(found), .expected = std::move(expected)});
  };
  if (texts_.size() > kMaxTexts) fail(std::to_string(texts_.size()) + " texts", "at most " + std::to_string(kMaxTexts));
  for (const std::string& text : texts_) {
    if (text.empty()) fail("an empty text", "at least one byte");
    if (text.size() > kMaxBytes) {
      fail("a text of " + std::to_string(text.size()) + " bytes", "at most " + std::to_string(kMaxBytes));
    }
    longest_ = std::max(longest_, text.size());
  }
}

bool StopStrings::push(std::string_view bytes) {
  if (found()) return true;
  const std::size_t before = size_ - tail_.size();  // bytes of the answer that are no longer here
  tail_ += bytes;
  size_ += bytes.size();
  std::size_t first = std::string::npos;
  for (const std::string& text : texts_) first = std::min(first, tail_.find(text));
  if (first != std::string::npos) {
    at_ = before + first;
  } else if (tail_.size() >= longest_) {
    tail_.erase(0, longest_ == 0 ? tail_.size() : tail_.size() - longest_ + 1);
  }
  return found();
}

std::size_t StopStrings::sure_bytes() const {
  if (found()) return *at_;
  std::size_t open = 0;  // the longest end of what is here that begins a text
  for (const std::string& text : texts_) {
    for (std::size_t n = std::min(text.size() - 1, tail_.size()); n > open; --n) {
      if (tail_.ends_with(std::string_view(text).substr(0, n))) open = n;
    }
  }
  return size_ - open;
}

}  // namespace kvscope
