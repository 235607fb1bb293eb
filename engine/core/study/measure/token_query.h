#pragma once
// Searching the tokens of a run: by text, by id, by what became of them in a head, by their numbers.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/record/run_record.h"

namespace kvscope {

struct TokenHits {
  std::vector<std::int32_t> tokens;  // ascending
  std::vector<std::int32_t>
      starts;  // of them those to go to one after the other: of a text over several tokens the first
};

/// A search as a person writes it. Terms joined by "&", each with "!" in front for its opposite:
///
///     the answer  "a & b"        text, over the borders of tokens; upper and lower case alike unless one is upper
///     /val.e/                    a regular expression in the text of one token
///     class:num                  what one token's text is: num, word, space, punct, newline (token_pattern.h)
///     #1234                      the token's id
///     sink window kept evicted unread undecided future      what it is to the head at the query, as the strip has it
///     cached                     sink, window, kept or unread: the query's head has it
///     from:prompt from:answer    where it comes from
///     oracle:kept oracle:dropped missed         the oracle's choice; missed: evicted, and the oracle keeps it
///     score>2 mass<=0.1 logprob heads position age id       numbers: > >= < <= = !=
///
/// heads is the number of KV heads of the layer that see the token, age the queries since it was read.
class TokenQuery {
 public:
  /// Throws Error (usage) with the term that is wrong and what is right.
  static TokenQuery parse(std::string_view text);
  /// A query of nothing finds nothing.
  bool empty() const { return terms_.empty(); }
  /// Whether the head and the query position matter to what is found.
  bool depends_on_query() const;
  /// O(tokens) a term, O(tokens log tokens) if the oracle is asked. Throws Error (bad input) where the run has no data for
  /// a term. The indices must be inside the run.
  TokenHits find(const RunRecord& run, int layer, int kv_head, std::int32_t q) const;

  struct Term;

 private:
  std::vector<std::shared_ptr<const Term>> terms_;
};

}  // namespace kvscope
