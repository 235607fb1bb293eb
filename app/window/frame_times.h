#pragma once
// How long the window's own thread works for each frame: input, session, layout and drawing lists. What a rasteriser or the
// graphics card makes of these is apart, and so is waiting.

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

namespace kvscope::app {

struct Panel;

class FrameTimes {
 public:
  /// What the thread works on. Commands are keys, mouse, scripts and control clients; the session takes what engine and
  /// files have brought; the views are laid out, with what they ask of the session.
  enum class Part { commands, session, text, views, lists };
  static constexpr std::array<std::string_view, 5> kParts = {"commands", "session", "text", "views", "lists"};

  /// Work begins, or goes on after a pause.
  void start();
  void pause();
  /// What follows is work on this.
  void part(Part part);
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
  /// What most of that frame went to.
  Part longest_part() const;
  nlohmann::json state() const;

 private:
  using Parts = std::array<double, kParts.size()>;  // ms
  static constexpr std::size_t kKept = 1000;
  std::vector<float> ms_;  // a ring
  std::uint64_t n_ = 0;
  bool started_up_ = false;
  double started_ = -1, work_ = 0, longest_ever_ = 0, newest_ = 0;  // seconds; ms
  Part part_ = Part::commands;
  Parts parts_{}, longest_parts_{};
};

/// Of the line under the views (F3), which covers nothing; 0 while it is not asked for. Pixels.
float frame_times_height(const Panel& panel);
/// That line, over the status bar's top at `bottom`. In little room it has the half of the numbers.
void draw_frame_times(Panel& panel, const FrameTimes& times, float bottom);

}  // namespace kvscope::app
