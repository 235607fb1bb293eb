#include "engine/jobs/tasks/reasoning_sequences.h"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "engine/jobs/tasks/reasoning.h"

namespace kvscope::engine {
namespace {

/// Between the least size and what `tokens` have room for, with more great ones than an even spread of logarithms has: an
/// evaluation asks for the largest that fit. What is too long is cut.
int draw_size(Random& random, const ReasoningKind& kind, int tokens) {
  const double least = kLeastReasoningSize;
  const double most = std::clamp(static_cast<double>(tokens) / (1.1 * kind.tokens_per_step), least,
                                 static_cast<double>(kMostReasoningSize));
  return static_cast<int>(std::lround(least * std::pow(most / least, std::sqrt(random.uniform()))));
}

class MixedSequences final : public SequenceSource {
 public:
  MixedSequences(std::unique_ptr<SequenceSource> first, std::unique_ptr<SequenceSource> other, double share,
                 std::uint64_t seed)
      : first_(std::move(first)), other_(std::move(other)), share_(share), seed_(seed) {}
  TaskSequence make(std::uint64_t index) const override {
    return Random(~seed_, index).uniform() < share_ ? first_->make(index) : other_->make(index);
  }
  int length() const override { return first_->length(); }

 private:
  std::unique_ptr<SequenceSource> first_, other_;
  double share_;
  std::uint64_t seed_;
};

}  // namespace

ReasoningSequences::ReasoningSequences(const Tokenizer& tokenizer, int length, std::uint64_t seed)
    : tokenizer_(tokenizer), length_(length), seed_(seed) {}

TaskSequence ReasoningSequences::make(std::uint64_t index) const {
  Random random(seed_, index);
  const std::size_t n = static_cast<std::size_t>(length_) + 1;
  TaskSequence sequence;
  while (sequence.ids.size() < n) {
    const auto kinds = reasoning_kinds();
    const ReasoningKind& kind = kinds[random.below(kinds.size())];
    const ReasoningProblem problem =
        kind.draw(random, draw_size(random, kind, static_cast<int>(n - sequence.ids.size())));
    append_as(TokenRole::statement, tokenizer_.encode("\n" + problem.statement, false), sequence);
    const auto begin = static_cast<std::int32_t>(sequence.ids.size());
    append_as(TokenRole::answer, tokenizer_.encode(problem.solution, false), sequence);
    if (sequence.ids.size() <= n)
      sequence.spans.push_back({TaskKind::reasoning, begin, static_cast<std::int32_t>(sequence.ids.size())});
  }
  sequence.ids.resize(n);
  sequence.roles.resize(n);
  return sequence;
}

std::unique_ptr<SequenceSource> mixed(std::unique_ptr<SequenceSource> first, std::unique_ptr<SequenceSource> other,
                                      double share, std::uint64_t seed) {
  if (first->length() != other->length()) throw std::invalid_argument("mixed: two lengths");
  return std::make_unique<MixedSequences>(std::move(first), std::move(other), share, seed);
}

}  // namespace kvscope::engine
