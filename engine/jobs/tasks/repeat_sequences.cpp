#include "engine/jobs/tasks/repeat_sequences.h"

#include "engine/core/support/error.h"
#include "engine/jobs/tasks/task.h"

namespace kvscope::engine {
namespace {

constexpr std::string_view kRequest = "\n\nRepeat the previous context exactly.";
constexpr std::size_t kShortest = 8;  // tokens of a copy

}  // namespace

RepeatSequences::RepeatSequences(std::span<const std::int32_t> text, const Tokenizer& tokenizer,
                                 const ChatTemplate* chat, RepeatOptions options, std::uint64_t seed)
    : text_(text), options_(options), seed_(seed) {
  const TaskMaterial frame = TaskMaterial::make(tokenizer, "", options.chat ? chat : nullptr, seed);
  before_ = frame.before;
  request_ = tokenizer.encode(frame.chat ? kRequest : std::string(kRequest) + "\n\n", false);
  append(request_, frame.behind);
  const auto length = static_cast<std::size_t>(options.length);
  const std::size_t n_frame = before_.size() + request_.size();
  if (length < n_frame + 2 * kShortest) {
    throw Error({.where = "data.length",
                 .found = std::to_string(length),
                 .expected = "at least " + std::to_string(n_frame + 2 * kShortest) + ", two copies of " +
                             std::to_string(kShortest) + " tokens and the request to repeat"});
  }
  if (text.size() < 2 * length) {
    throw Error({.where = "text of the corpus",
                 .found = std::to_string(text.size()) + " tokens",
                 .expected = "at least " + std::to_string(2 * length) + ", two sequences"});
  }
  n_ = (length - n_frame) / 2;
}

RepeatSpan RepeatSequences::span() const {
  const auto text = static_cast<std::int64_t>(before_.size()), n = static_cast<std::int64_t>(n_);
  return {.text = text, .repetition = text + n + static_cast<std::int64_t>(request_.size()), .n = n};
}

TaskSequence RepeatSequences::make(std::uint64_t index) const {
  Random random(seed_, index);
  const std::size_t n_tokens = static_cast<std::size_t>(options_.length) + 1;
  const auto piece = text_.subspan(random.below(text_.size() - n_tokens), n_tokens);
  TaskSequence sequence;
  append_as(TokenRole::statement, before_, sequence);
  append_as(TokenRole::text, piece.first(n_), sequence);
  append_as(TokenRole::statement, request_, sequence);
  append_as(TokenRole::answer, piece.first(n_), sequence);
  append_as(TokenRole::statement, piece.subspan(n_, n_tokens - sequence.ids.size()), sequence);
  return sequence;
}

}  // namespace kvscope::engine
