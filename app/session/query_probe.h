#pragma once
// What the shown query gives all tokens up to it: asked of the engine when it has nothing else to do, and kept.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "app/session/engine_link.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

class QueryProbe {
 public:
  QueryProbe(EngineLink& engine, Revision& revision) : engine_(engine), revision_(revision) {}

  /// What the views are given: they set `wanted`.
  views::AskedQueryAttention& asked() { return asked_; }
  /// After a frame, with A as it is shown (null: nothing): asks what was looked at and is not known. While time plays, what is
  /// on its way is waited for: else no answer would ever arrive.
  void poll(const views::ShownRun* a, const views::Selection& at);

 private:
  struct Key {
    std::string weights_hash;
    std::uint64_t ids = 0;  // hash of the tokens up to the query: runs that part after it have the same
    int n_tokens = 0;
    bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    std::shared_ptr<const QueryAttention> answer;  // null: refused, and why
    std::string why_not;
  };
  Known look(const std::shared_ptr<const RunRecord>& run, int query, bool plays);
  const Known* find(const Key& key) const;
  void keep(Known known);
  void ask(const Key& key, const std::shared_ptr<const RunRecord>& run);

  EngineLink& engine_;
  Revision& revision_;
  views::AskedQueryAttention asked_;
  std::shared_ptr<const RunRecord> looked_at_;  // the run of the last poll, which the answer is of
  std::deque<Known> known_;                     // the newest first
  Key on_its_way_;
  bool asking_ = false;
  std::shared_ptr<const RunRecord> hashed_;  // whose first tokens' hash is known
  int n_hashed_ = 0;
  std::uint64_t hash_ = 0;
};

}  // namespace kvscope::app
