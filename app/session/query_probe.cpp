#include "app/session/query_probe.h"

#include <utility>

#include "engine/core/protocol/events.h"
#include "engine/core/support/hash.h"

namespace kvscope::app {
namespace {

constexpr std::size_t kMostQueries = 64, kMostShares = std::size_t{1} << 26;  // 256 MiB, or one answer that is larger

}  // namespace

const QueryProbe::Known* QueryProbe::find(const Key& key) const {
  for (const Known& known : known_) {
    if (known.key == key) return &known;
  }
  return nullptr;
}

void QueryProbe::keep(Known known) {
  known_.push_front(std::move(known));
  std::size_t shares = 0;
  for (std::size_t i = 0; i < known_.size(); ++i) {
    shares += known_[i].answer ? known_[i].answer->probability.size() : 0;
    if (i > 0 && (i >= kMostQueries || shares > kMostShares)) return known_.resize(i);
  }
}

void QueryProbe::poll(const views::ShownRun* a, const views::Selection& at) {
  if (!std::exchange(asked_.wanted, false)) return;
  const std::shared_ptr<const RunRecord> run = views::drawable(a) ? a->run : nullptr;
  Known now = run ? look(run, views::cursor(at, *run).q, at.play.on) : Known{};
  if (!now.answer && now.why_not.empty() && run == looked_at_) now.answer = asked_.answer;
  looked_at_ = run;
  if (asked_.answer == now.answer && asked_.why_not == now.why_not) return;
  asked_.answer = now.answer;
  asked_.why_not = now.why_not;
  revision_.rise();
}

QueryProbe::Known QueryProbe::look(const std::shared_ptr<const RunRecord>& run, int query, bool plays) {
  if (run != hashed_ || n_hashed_ != query + 1) {
    hashed_ = run, n_hashed_ = query + 1;
    hash_ = fnv1a64(
        {reinterpret_cast<const char*>(run->ids.data()), static_cast<std::size_t>(n_hashed_) * sizeof run->ids[0]});
  }
  const Key key{run->model.weights_hash, hash_, n_hashed_};
  if (const Known* known = find(key)) return *known;
  if (std::string why_not = engine_.why_not_ask(*run, "query_attention"); !why_not.empty())
    return {key, nullptr, std::move(why_not)};
  if (!engine_.question_pending()) {
    ask(key, run);
  } else if (asking_ && !plays && !(on_its_way_ == key)) {
    engine_.cancel_question();  // its end brings a frame, which asks; what others asked is waited for
  }
  return {key, nullptr, ""};
}

void QueryProbe::ask(const Key& key, const std::shared_ptr<const RunRecord>& run) {
  on_its_way_ = key;
  asking_ = true;
  engine_.ask(QueryAttentionRequest{{run->ids.begin(), run->ids.begin() + key.n_tokens}},
              [this, key, run](const nlohmann::json* done, const std::string& why_not) {
                asking_ = false;
                if (done) {
                  keep({key, std::make_shared<QueryAttention>(protocol::query_attention_from_event(*done)), ""});
                  if (looked_at_ == run) asked_.answer = known_.front().answer;
                } else if (!why_not.empty()) {
                  keep({key, nullptr, why_not});
                }
                revision_.rise();
              });
}

}  // namespace kvscope::app
