#pragma once
// Several devices that train one thing: for each a thread, a copy of all parameters, and a share of every batch.

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

namespace kvscope::engine {

/// Where the threads of a training meet. Everything is called by all members, in the same order; each call returns the same at all.
///
/// The sums of a step go over LibTorch's copies between devices and are added in the members' order: a training on as many devices
/// gives the same parameters again, and a copy needs neither a rendezvous nor processes that could be left behind. Gates and adapters have
/// some MB, so that the order costs nothing beside a step; NCCL's ring would pay for all weights of a large model alone.
class Team {
 public:
  explicit Team(int n_members);
  int size() const { return static_cast<int>(tensors_.size()); }

  /// `sums` of every member, of one shape each on its device, become their mean.
  void average(int member, at::Tensor sums);
  /// What the first member says.
  double agree(int member, double value);
  /// The mean of each value over the members.
  std::vector<double> mean(int member, const std::vector<double>& values);

  /// Calls work(member) for all, the first in this thread, and waits. If one throws, the others are let go as soon as they meet, and
  /// the first problem is thrown again.
  void run(const std::function<void(int member)>& work);

 private:
  void meet();
  void give_up();

  std::vector<at::Tensor> tensors_;
  std::vector<std::vector<double>> values_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int n_waiting_ = 0;
  long n_meetings_ = 0;
  bool given_up_ = false;
};

}  // namespace kvscope::engine
