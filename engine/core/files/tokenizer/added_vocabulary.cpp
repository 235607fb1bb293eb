#include "engine/core/files/tokenizer/added_vocabulary.h"

#include <algorithm>

namespace kvscope {

std::int32_t AddedVocabulary::next_id() const {
  const auto size = static_cast<std::int32_t>(vocabulary_.size());
  return highest_ >= size ? highest_ + 1 : size;
}

void AddedVocabulary::add(const std::vector<AddedToken>& tokens) {
  for (const AddedToken& token : tokens) {
    if (token.special && !token.content.empty() && special_.insert(token.content).second)
      special_patterns_.push_back(token);
  }
  // What is there when the call begins, or came in it, is not added again, even if it was changed in between.
  std::set<AddedToken> existing;
  for (const auto& [id, token] : tokens_) existing.insert(token);
  for (AddedToken token : tokens) {
    if (token.content.empty()) continue;
    const auto known = ids_.find(token.content);
    const std::int32_t in_vocabulary = vocabulary_.find(token.content);
    token.id = known != ids_.end() ? known->second : in_vocabulary >= 0 ? in_vocabulary : next_id();
    if (!existing.insert(token).second) continue;
    ids_.insert_or_assign(token.content, token.id);
    highest_ = std::max(highest_, token.id);
    tokens_.insert_or_assign(token.id, token);
    if (!special_.contains(token.content)) other_patterns_.push_back(token);
  }
}

std::vector<AddedToken> AddedVocabulary::patterns() const {
  std::vector<AddedToken> out;
  for (const auto* list : {&special_patterns_, &other_patterns_}) {
    for (const AddedToken& pattern : *list) {
      AddedToken token = tokens_.at(ids_.at(pattern.content));  // its flags, whatever they were when it was added
      token.content = pattern.content;
      token.normalized = pattern.normalized;
      token.special = special_.contains(token.content);
      out.push_back(std::move(token));
    }
  }
  return out;
}

bool AddedVocabulary::operator==(const AddedVocabulary& other) const {
  return tokens_ == other.tokens_ && ids_ == other.ids_ && special_ == other.special_;
}

}  // namespace kvscope
