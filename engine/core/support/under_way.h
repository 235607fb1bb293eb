#pragma once
// How much of what is shown is still being computed: a picture of the window waits for it.

#include <atomic>

namespace kvscope {

/// One answer that is asked for, until it is there.
class UnderWay {
 public:
  UnderWay() { ++n_, ++begun_; }
  ~UnderWay() { --n_; }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  static int n() { return n_; }
  /// Since the program began.
  static int begun() { return begun_; }

 private:
  inline static std::atomic<int> n_{0}, begun_{0};
};

}  // namespace kvscope
