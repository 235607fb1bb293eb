#pragma once
// How long the window's own thread works for each frame: input, session, layout and drawing lists. What a rasteriser or the
// graphics card makes of these is apart, and so is waiting.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace kvscope::app {

struct Panel;

class FrameTimes {
 public:
  /// Work begins, or goes on after a pause.
  void start();
  void pause();
  /// What was worked since the last frame made this one. The first is not counted.
  void frame();

  struct Summary {
    int n = 0;                                      // frames that these go over
    double p50 = 0, p95 = 0, p99 = 0, longest = 0;  // ms of the thread's processor time; NaN of no frame
  };
  /// Over the last kKept frames.
  Summary summary() const;
  /// Of the frame before, ms.
  double newest() const { return newest_; }
  /// Of all frames since the start, ms.
  double longest_ever() const { return longest_ever_; }
  nlohmann::json state() const;

 private:
  static constexpr std::size_t kKept = 1000;
  std::vector<float> ms_;  // a ring
  std::uint64_t n_ = 0;
  bool started_up_ = false;
  double started_ = -1, work_ = 0, longest_ever_ = 0, newest_ = 0;  // seconds; ms
};

/// The overlay (F3), in the upper right corner of the views.
void draw_frame_times(Panel& panel, const FrameTimes& times);

}  // namespace kvscope::app
