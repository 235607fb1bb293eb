#pragma once
// The added tokens of a tokenizer as the `tokenizers` package keeps them: it numbers them itself.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/files/tokenizer/added_tokens.h"
#include "engine/core/files/tokenizer/token_ids.h"

namespace kvscope {

/// A token that the vocabulary or an earlier call has keeps its id; another gets the vocabulary's size, or the number
/// after the highest added one. So ids that a file writes beside its added tokens decide nothing. A token that is added
/// again takes the new flags, but stays special, and is looked for both raw and normalised if it was added as both.
class AddedVocabulary {
 public:
  /// `vocabulary` must outlive this.
  explicit AddedVocabulary(const TokenIds& vocabulary) : vocabulary_(vocabulary) {}

  /// One call of the package's add_tokens(); ids of the arguments are not looked at.
  void add(const std::vector<AddedToken>& tokens);

  /// By content: all that were ever added.
  const std::map<std::string, std::int32_t, std::less<>>& ids() const { return ids_; }
  /// With the flags that hold. Where ids of the vocabulary have gaps, a new token may take the id of another.
  const std::map<std::int32_t, AddedToken>& tokens() const { return tokens_; }
  bool is_special(const std::string& content) const { return special_.contains(content); }
  /// What is looked for in a text, in the package's order; `normalized` says when.
  std::vector<AddedToken> patterns() const;
  bool operator==(const AddedVocabulary& other) const;

 private:
  std::int32_t next_id() const;
  const TokenIds& vocabulary_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
  std::map<std::int32_t, AddedToken> tokens_;
  std::set<std::string> special_;
  std::vector<AddedToken> special_patterns_, other_patterns_;
  std::int32_t highest_ = -1;
};

}  // namespace kvscope
