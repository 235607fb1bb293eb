#pragma once
// Training and evaluation sequences: English text with tasks scattered through it.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/support/random.h"
#include "engine/jobs/tasks/task_item.h"

namespace kvscope::engine {

/// How sequences are made. The text is cut into n_slots + 1 pieces of random length, each from a random place;
/// statements and questions stand between them, a question always in a later gap than its statement.
struct SequenceOptions {
  int length = 2048;  // positions a model sees; a sequence has length + 1 tokens
  int n_slots = 20;
  int n_reversals = 1;
  int min_numbers = 8, max_numbers = 16;
  int min_facts = 4, max_facts = 8;  // each asked for once or twice
  double reasoning_share = 0;        // of sequences that are reasoning problems instead (reasoning_sequences.h)
  bool operator==(const SequenceOptions&) const = default;
};

/// What a token is for; the loss weighs them differently.
enum class TokenRole : std::uint8_t { text, statement, answer };  // questions count as statements

struct AnswerSpan {
  TaskKind kind;
  std::int32_t begin, end;  // positions of the answer's tokens, end excluded
  bool operator==(const AnswerSpan&) const = default;
};

struct TaskSequence {
  std::vector<std::int32_t> ids;  // [length + 1]
  std::vector<TokenRole> roles;   // [length + 1]
  std::vector<AnswerSpan> spans;  // in order of position, whole ones only
};

/// Tokens of one role at the end of a sequence.
void append_as(TokenRole role, std::span<const std::int32_t> ids, TaskSequence& sequence);

/// Where training sequences come from. Sequence i depends on i alone: any thread, any order, same result.
class SequenceSource {
 public:
  virtual ~SequenceSource() = default;
  virtual TaskSequence make(std::uint64_t index) const = 0;
  /// Positions a model sees; a sequence has length() + 1 tokens.
  virtual int length() const = 0;
};

/// The lengths of n_pieces pieces that sum up to `total`, between n_pieces - 1 distinct random cuts.
std::vector<std::size_t> cut_lengths(Random& random, std::size_t total, int n_pieces);

/// Makes sequence i from (seed, i) alone: any thread, any order, same result. `text` are the tokens of a corpus and
/// must outlive the generator. Throws Error if the text is shorter than two sequences or if the tasks could leave no
/// room.
class SequenceGenerator final : public SequenceSource {
 public:
  SequenceGenerator(std::span<const std::int32_t> text, TaskLexicon words, SequenceOptions options, std::uint64_t seed);
  TaskSequence make(std::uint64_t index) const override;
  int length() const override { return options_.length; }
  const SequenceOptions& options() const { return options_; }

 private:
  std::span<const std::int32_t> text_;
  TaskLexicon words_;
  SequenceOptions options_;
  std::uint64_t seed_;
};

}  // namespace kvscope::engine
