#include "engine/jobs/tasks/sequence.h"

#include <algorithm>
#include <set>

#include "engine/core/support/error.h"

namespace kvscope::engine {
namespace {

/// Something to write into a gap: a statement, or a question with its answer.
struct Insert {
  TaskKind kind;
  TokenIds prompt;
  TokenIds answer;  // empty for statements
};
using Slots = std::vector<std::vector<Insert>>;

void place_reversals(Random& random, const TaskLexicon& words, const SequenceOptions& options, Slots& slots) {
  const int last = options.n_slots;
  for (int i = 0; i < options.n_reversals; ++i) {
    TaskItem item = make_reversal(random, words, options.min_numbers, options.max_numbers);
    const auto stated = random.between(0, last * 7 / 10);  // leaves room for a long gap behind it
    const auto asked = random.between(stated + 1, last);
    slots[stated].push_back({item.kind, std::move(item.statement), {}});
    slots[asked].push_back({item.kind, std::move(item.question), std::move(item.answer)});
  }
}

void place_facts(Random& random, const TaskLexicon& words, const SequenceOptions& options, Slots& slots) {
  const int last = options.n_slots;
  UsedThings used;
  const auto n_facts = random.between(options.min_facts, options.max_facts);
  for (std::int64_t i = 0; i < n_facts; ++i) {
    TaskItem item = make_fact(random, words, used);
    const auto stated = random.between(0, last * 8 / 10);
    std::set<std::int64_t> asked;
    for (auto questions = random.between(1, 2); questions > 0; --questions) {
      asked.insert(random.between(stated + 1, last));
    }
    slots[stated].push_back({item.kind, std::move(item.statement), {}});
    for (const auto slot : asked) slots[slot].push_back({item.kind, item.question, item.answer});
  }
}

/// The most tokens that the tasks of one sequence can take: what must fit, with one token of text a piece.
std::size_t most_task_tokens(const TaskLexicon& words, const SequenceOptions& options) {
  const auto longest = [](const auto& phrases) {
    return std::max_element(phrases.begin(), phrases.end(), [](auto& a, auto& b) { return a.size() < b.size(); })
        ->size();
  };
  const std::size_t numbers = options.max_numbers * longest(words.two_digits) + words.stop.size();
  const std::size_t reversal = words.numbers_open.size() + words.reversed_open.size() + 2 * numbers;
  const std::size_t thing = longest(words.adjective) + longest(words.noun);
  const std::size_t code = words.blank.size() + 4 * longest(words.digit) + words.stop.size();
  const std::size_t fact = words.code_open.size() + thing + words.code_is.size() + code +
                           2 * (words.question_open.size() + thing + words.question_close.size() + code);
  return options.n_reversals * reversal + options.max_facts * fact;
}

}  // namespace

void append_as(TokenRole role, std::span<const std::int32_t> ids, TaskSequence& sequence) {
  sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
  sequence.roles.resize(sequence.ids.size(), role);
}

std::vector<std::size_t> cut_lengths(Random& random, std::size_t total, int n_pieces) {
  std::set<std::size_t> cuts;
  while (cuts.size() + 1 < static_cast<std::size_t>(n_pieces)) cuts.insert(random.below(total));
  std::vector<std::size_t> lengths;
  std::size_t before = 0;
  for (const auto cut : cuts) {
    lengths.push_back(cut - before);
    before = cut;
  }
  lengths.push_back(total - before);
  return lengths;
}

SequenceGenerator::SequenceGenerator(std::span<const std::int32_t> text, TaskLexicon words, SequenceOptions options,
                                     std::uint64_t seed)
    : text_(text), words_(std::move(words)), options_(options), seed_(seed) {
  const auto length = static_cast<std::size_t>(options_.length);
  if (text_.size() < 2 * length) {
    throw Error({.where = "text of the corpus",
                 .found = std::to_string(text_.size()) + " tokens",
                 .expected = "at least " + std::to_string(2 * length) + ", two sequences"});
  }
  const auto most = most_task_tokens(words_, options_) + options_.n_slots + 1;
  if (most > length) {
    throw Error({.where = "data",
                 .found = "tasks of up to " + std::to_string(most) + " tokens",
                 .expected = "at most length = " + std::to_string(length),
                 .hint = "use fewer or shorter tasks, or a greater length"});
  }
}

TaskSequence SequenceGenerator::make(std::uint64_t index) const {
  Random random(seed_, index);
  Slots slots(static_cast<std::size_t>(options_.n_slots) + 1);
  place_reversals(random, words_, options_, slots);
  place_facts(random, words_, options_, slots);

  std::size_t n_task_tokens = 0;
  for (const auto& slot : slots) {
    for (const auto& insert : slot) n_task_tokens += insert.prompt.size() + insert.answer.size();
  }
  const std::size_t n_tokens = static_cast<std::size_t>(options_.length) + 1;
  const auto lengths = cut_lengths(random, n_tokens - n_task_tokens, options_.n_slots + 1);

  TaskSequence sequence;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const auto piece = text_.subspan(random.below(text_.size() - n_tokens), lengths[i]);
    append_as(TokenRole::text, TokenIds(piece.begin(), piece.end()), sequence);
    for (const auto& insert : slots[i]) {
      append_as(TokenRole::statement, insert.prompt, sequence);
      if (insert.answer.empty()) continue;
      const auto begin = static_cast<std::int32_t>(sequence.ids.size());
      append_as(TokenRole::answer, insert.answer, sequence);
      sequence.spans.push_back({insert.kind, begin, static_cast<std::int32_t>(sequence.ids.size())});
    }
  }
  return sequence;
}

}  // namespace kvscope::engine
