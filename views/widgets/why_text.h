#pragma once
// "Why was this token evicted?", asked again only when the question changed: the answer searches the run's contests.

#include <string>

#include "views/selection/view_state.h"
#include "views/widgets/chrome.h"
#include "views/widgets/rebuild.h"

namespace kvscope::views {

class WhyText {
 public:
  /// at.token must be a token of the run.
  const std::string& of(const ShownRun& shown, const Cursor& at) {
    if (rebuild_.due({RunKey(&shown), at.layer, at.kv_head, at.token, at.q})) {
      text_ = explain_token(*shown.run, at.layer, at.kv_head, at.token, at.q);
      rebuild_.done();
    }
    return text_;
  }

 private:
  struct Key {
    RunKey run;
    int layer, kv_head, token;
    std::int32_t q;
    bool operator==(const Key&) const = default;
  };
  Rebuild<Key> rebuild_;
  std::string text_;
};

}  // namespace kvscope::views
