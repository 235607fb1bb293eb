#include "app/session/preview.h"

#include <utility>

#include "engine/core/study/measure/what_if.h"

namespace kvscope::app {

void Preview::clear() {
  ++ticket_;  // an answer that is under way comes too late
  run_ = nullptr;
  pending_ = false;
  note_.clear();
}

void Preview::wait() {
  clear();
  pending_ = true;
}

void Preview::request(std::shared_ptr<const RunRecord> run, const PolicySpec& policy,
                      std::shared_ptr<const ScoresOfGates> gates, std::vector<std::int32_t> budgets) {
  clear();
  policy_ = policy;
  gates_ = std::move(gates);
  budgets_ = std::move(budgets);
  ask(std::move(run));
}

void Preview::follow(std::shared_ptr<const RunRecord> run) {
  if (!pending_ && run_ != nullptr && run->n_tokens() > run_->n_tokens()) ask(std::move(run));
}

void Preview::ask(std::shared_ptr<const RunRecord> run) {
  pending_ = true;
  worker_.post_only(
      [this, ticket = ticket_, run = std::move(run), policy = policy_, gates = gates_,
       budgets = budgets_]() -> Worker::Finish {
        auto preview =
            std::make_shared<const RunRecord>(what_if(*run, policy, gates ? *gates : ScoresOfGates(), budgets));
        return [this, ticket, preview] {
          if (ticket != ticket_) return;
          run_ = preview;
          pending_ = false;
          ++revision_;
          answered_();
        };
      },
      [this, ticket = ticket_](const std::string& text) {
        if (ticket != ticket_) return;
        run_ = nullptr;  // of a run that grew: what holds no longer is not shown
        pending_ = false;
        note_ = text;
        answered_();
      });
}

void Preview::poll() {
  for (const auto& finish : worker_.take_finished()) finish();
}

}  // namespace kvscope::app
