#pragma once
// What later queries give to the selected token: asked of the engine when it has nothing else to do, and kept.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "app/session/engine_link.h"
#include "views/selection/view_state.h"

namespace kvscope::app {

class AttentionProbe {
 public:
  AttentionProbe(EngineLink& engine, Revision& revision) : engine_(engine), revision_(revision) {}

  /// What the views are given: they set `wanted`.
  views::AskedAttention& asked() { return asked_; }
  /// After a frame, with A as it is shown (null: nothing): asks what was looked at and is not known.
  void poll(const views::ShownRun* a, const views::Selection& at);

 private:
  struct Key {
    std::string weights_hash;
    std::uint64_t ids = 0;  // hash of the tokens: a preview of a run, and the run, have the same
    int layer = 0, token = 0;
    bool operator==(const Key&) const = default;
  };
  struct Known {
    Key key;
    std::shared_ptr<const TokenAttention> answer;  // null: refused, and why
    std::string why_not;
  };
  Known look(const std::shared_ptr<const RunRecord>& run, int layer, int token);
  const Known* find(const Key& key) const;
  void keep(Known known);
  void ask(const Key& key, const RunRecord& run);

  EngineLink& engine_;
  Revision& revision_;
  views::AskedAttention asked_;
  std::deque<Known> known_;
  Key on_its_way_;
  bool asking_ = false;
  std::shared_ptr<const RunRecord> hashed_;  // whose tokens' hash is known
  std::uint64_t hash_ = 0;
};

}  // namespace kvscope::app
