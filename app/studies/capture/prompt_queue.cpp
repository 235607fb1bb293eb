#include "app/studies/capture/prompt_queue.h"

#include <algorithm>
#include <utility>

namespace kvscope::app {

PromptQueue::PromptQueue(std::size_t n_prompts, std::size_t n_engines) : n_prompts_(n_prompts), at_work_(n_engines) {}

std::optional<PromptQueue::Place> PromptQueue::next(std::size_t engine, Place end) {
  std::set<Place>& at_work = at_work_[engine];
  const bool is_second = std::ranges::any_of(at_work, [&](Place place) { return twice_.contains(place); });
  if (is_closed_ || is_second || (!again_.empty() && !at_work.empty())) return std::nullopt;
  Place place = begun_;
  if (!again_.empty()) {
    place = *again_.begin();
    again_.erase(again_.begin());
    twice_.insert(place);
  } else if (begun_ < std::min(n_prompts_, end)) {
    ++begun_;
  } else {
    return std::nullopt;
  }
  at_work.insert(place);
  return place;
}

std::set<PromptQueue::Place> PromptQueue::stopped(std::size_t engine) {
  std::set<Place> again = std::exchange(at_work_[engine], {});
  std::erase_if(again, [&](Place place) { return twice_.contains(place); });
  again_.insert(again.begin(), again.end());
  return again;
}

bool PromptQueue::is_over() const {
  if (!std::ranges::all_of(at_work_, &std::set<Place>::empty)) return false;
  return is_closed_ || (begun_ == n_prompts_ && again_.empty());
}

}  // namespace kvscope::app
