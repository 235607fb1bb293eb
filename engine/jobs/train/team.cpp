#include "engine/jobs/train/team.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <exception>
#include <thread>

namespace kvscope::engine {
namespace {

/// Thrown at those who wait for a member that has met a problem.
struct MemberLost : std::exception {};

}  // namespace

Team::Team(int n_members)
    : tensors_(static_cast<std::size_t>(n_members)), values_(static_cast<std::size_t>(n_members)) {}

void Team::meet() {
  std::unique_lock lock(mutex_);
  const long meeting = n_meetings_;
  if (++n_waiting_ == size()) {
    n_waiting_ = 0;
    ++n_meetings_;
    changed_.notify_all();
    return;
  }
  changed_.wait(lock, [&] { return given_up_ || n_meetings_ != meeting; });
  if (n_meetings_ == meeting) throw MemberLost();
}

void Team::give_up() {
  const std::scoped_lock lock(mutex_);
  given_up_ = true;
  changed_.notify_all();
}

void Team::average(int member, at::Tensor sums) {
  const c10::NoGradGuard no_grad;
  tensors_[static_cast<std::size_t>(member)] = sums;
  meet();
  at::Tensor total = at::zeros(sums.sizes(), sums.options().dtype(at::kFloat));
  for (const at::Tensor& part : tensors_) total.add_(part.to(sums.device()));
  meet();  // all copies are queued: behind them a member may write to what it gave
  sums.copy_(total.div_(size()));
}

double Team::agree(int member, double value) {
  values_[static_cast<std::size_t>(member)] = {value};
  meet();
  const double first = values_.front().front();
  meet();
  return first;
}

std::vector<double> Team::mean(int member, const std::vector<double>& values) {
  values_[static_cast<std::size_t>(member)] = values;
  meet();
  std::vector<double> out(values.size());
  for (const auto& of_member : values_) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += of_member[i] / size();
  }
  meet();
  return out;
}

void Team::run(const std::function<void(int member)>& work) {
  std::exception_ptr problem;
  const auto guarded = [&](int member) {
    try {
      work(member);
    } catch (const MemberLost&) {  // what it was is kept below, by the one who met it
    } catch (...) {
      {
        const std::scoped_lock lock(mutex_);
        if (!problem) problem = std::current_exception();
      }
      give_up();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int member = 1; member < size(); ++member) threads.emplace_back(guarded, member);
    guarded(0);
  }
  if (problem) std::rethrow_exception(problem);
}

}  // namespace kvscope::engine
