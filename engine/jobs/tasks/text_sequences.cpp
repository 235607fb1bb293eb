#include "engine/jobs/tasks/text_sequences.h"

#include <set>

#include "engine/core/support/error.h"
#include "engine/jobs/tasks/training_facts.h"

namespace kvscope::engine {
namespace {

constexpr int kGaps = 20, kLastStatement = 15, kMostQuestions = 3;
constexpr int kLongestStatement = 120, kLongestQuestion = 50;  // tokens, the answer included, of any tokenizer

/// What stands in a gap: a statement, or a question and its answer.
struct Phrase {
  TokenIds prompt, answer;
};

void add_fact(Random& random, const Tokenizer& tokenizer, const TrainingFact& fact,
              std::vector<std::vector<Phrase>>& gaps) {
  const auto stated = random.between(0, kLastStatement);
  gaps[stated].push_back({tokenizer.encode("\n" + fact.statement + "\n", false), {}});
  std::set<std::int64_t> asked;
  for (auto n = random.between(1, kMostQuestions); n > 0; --n) asked.insert(random.between(stated + 1, kGaps));
  for (const auto gap : asked) {
    TokenIds answer = tokenizer.encode(" " + fact.answer, false);
    append(answer, tokenizer.encode("\n", false));
    gaps[gap].push_back({tokenizer.encode("\n" + fact.lead, false), std::move(answer)});
  }
}

}  // namespace

TextSequences::TextSequences(std::span<const std::int32_t> text, const Tokenizer& tokenizer, TextOptions options,
                             std::uint64_t seed)
    : text_(text), tokenizer_(tokenizer), options_(options), seed_(seed) {
  const auto length = static_cast<std::size_t>(options_.length);
  if (text_.size() < 2 * length) {
    throw Error({.where = "text of the corpus",
                 .found = std::to_string(text_.size()) + " tokens",
                 .expected = "at least " + std::to_string(2 * length) + ", two sequences"});
  }
  const int most = options_.max_facts * (kLongestStatement + kMostQuestions * kLongestQuestion) + kGaps + 1;
  if (options_.facts_share > 0 && options_.length < most) {
    throw Error(
        {.where = "data.length",
         .found = std::to_string(options_.length),
         .expected = "at least " + std::to_string(most) + " for " + std::to_string(options_.max_facts) + " facts",
         .hint = "use a smaller max_facts, or facts_share 0"});
  }
}

TaskSequence TextSequences::make(std::uint64_t index) const {
  Random random(seed_, index);
  return random.uniform() < options_.facts_share ? with_facts(random) : plain(random);
}

TaskSequence TextSequences::plain(Random& random) const {
  const std::size_t n_tokens = static_cast<std::size_t>(options_.length) + 1;
  TaskSequence sequence;
  append_as(TokenRole::text, text_.subspan(random.below(text_.size() - n_tokens), n_tokens), sequence);
  return sequence;
}

TaskSequence TextSequences::with_facts(Random& random) const {
  std::vector<std::vector<Phrase>> gaps(kGaps + 1);
  std::set<std::string> leads;  // no two facts contradict each other
  for (auto n = random.between(1, options_.max_facts); n > 0;) {
    const TrainingFact fact = draw_training_fact(random);
    if (!leads.insert(fact.lead).second) continue;
    add_fact(random, tokenizer_, fact, gaps);
    --n;
  }
  std::size_t n_phrases = 0;
  for (const auto& gap : gaps) {
    for (const Phrase& phrase : gap) n_phrases += phrase.prompt.size() + phrase.answer.size();
  }
  const std::size_t n_tokens = static_cast<std::size_t>(options_.length) + 1, n_text = n_tokens - n_phrases;
  const auto lengths = cut_lengths(random, n_text, kGaps + 1);
  std::size_t at = random.below(text_.size() - n_text);
  TaskSequence sequence;
  for (std::size_t i = 0; i < gaps.size(); ++i) {
    append_as(TokenRole::text, text_.subspan(at, lengths[i]), sequence);
    at += lengths[i];
    for (const Phrase& phrase : gaps[i]) {
      append_as(TokenRole::statement, phrase.prompt, sequence);
      if (phrase.answer.empty()) continue;
      const auto begin = static_cast<std::int32_t>(sequence.ids.size());
      append_as(TokenRole::answer, phrase.answer, sequence);
      sequence.spans.push_back({TaskKind::fact_recall, begin, static_cast<std::int32_t>(sequence.ids.size())});
    }
  }
  return sequence;
}

}  // namespace kvscope::engine
