#pragma once
// What the selection searches for, found once for all views.

#include <string>

#include "engine/core/study/measure/token_query.h"
#include "views/selection/view_state.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class TokenFinder {
 public:
  /// Searches again where run, head, query or text changed, and lends the hits to the context.
  void update(ViewContext& context);
  const TokenHits& hits() const { return hits_; }
  /// "3 of 17 matches, 21 tokens", "no matches", or what is wrong with the text; empty without a search.
  std::string line(const Selection& selection) const;
  bool is_wrong() const { return !wrong_.empty(); }

 private:
  struct Key {
    RunKey run;
    int layer, kv_head;
    std::int32_t q;
    std::string text;
    bool operator==(const Key&) const = default;
  };
  TokenQuery query_;
  std::string text_;  // that query_ was read from
  bool readable_ = false;
  TokenHits hits_;
  std::string wrong_;
  Rebuild<Key> rebuild_;
};

}  // namespace kvscope::views
