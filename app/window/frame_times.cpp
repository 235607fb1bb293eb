#include "app/window/frame_times.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "app/window/panel.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

}  // namespace

void FrameTimes::start() {
  if (started_ < 0) started_ = thread_seconds();
}

void FrameTimes::pause() {
  if (started_ < 0) return;
  const double worked = thread_seconds() - started_;
  work_ += worked;
  parts_[static_cast<std::size_t>(part_)] += 1000 * worked;
  started_ = -1;
}

void FrameTimes::part(Part part) {
  if (started_ >= 0) pause(), start();
  part_ = part;
}

void FrameTimes::frame() {
  pause();
  const double ms = 1000 * work_;
  work_ = 0;
  const Parts parts = std::exchange(parts_, {});
  if (!started_up_) return void(started_up_ = true);  // fonts and textures: startup has its own limit
  newest_ = ms;
  if (ms > longest_ever_) longest_ever_ = ms, longest_parts_ = parts;
  if (ms_.size() < kKept) {
    ms_.push_back(static_cast<float>(ms));
  } else {
    ms_[n_ % kKept] = static_cast<float>(ms);
  }
  ++n_;
}

FrameTimes::Summary FrameTimes::summary() const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (ms_.empty()) return {0, kNone, kNone, kNone, kNone};
  std::vector<float> sorted = ms_;
  std::ranges::sort(sorted);
  const auto at = [&](double share) {
    return static_cast<double>(
        sorted[static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size()))) - 1]);
  };
  return {static_cast<int>(sorted.size()), at(0.5), at(0.95), at(0.99), at(1)};
}

FrameTimes::Part FrameTimes::longest_part() const {
  return static_cast<Part>(std::ranges::max_element(longest_parts_) - longest_parts_.begin());
}

nlohmann::json FrameTimes::state() const {
  const Summary last = summary();
  if (last.n == 0) return {{"n", 0}};
  nlohmann::json parts;
  for (std::size_t i = 0; i < kParts.size(); ++i) parts[std::string(kParts[i])] = longest_parts_[i];
  return {{"n", last.n},
          {"p50", last.p50},
          {"p95", last.p95},
          {"p99", last.p99},
          {"longest", last.longest},
          {"longest_ever", longest_ever_},
          {"longest_ever_parts", parts}};
}

float frame_times_height(const Panel& panel) { return panel.ui.frame_times ? panel.px(26) : 0; }

void draw_frame_times(Panel& panel, const FrameTimes& times, float bottom) {
  const FrameTimes::Summary last = times.summary();
  if (!panel.ui.frame_times || last.n == 0) return;
  const auto ms = [](double value) { return fixed_text(value, 1); };
  const std::string most = std::string(FrameTimes::kParts[static_cast<std::size_t>(times.longest_part())]);
  const std::string text = "CPU per frame, last " + std::to_string(last.n) + ": p50 " + ms(last.p50) + ", p95 " +
                           ms(last.p95) + ", p99 " + ms(last.p99) + ", max " + ms(last.longest) +
                           " ms (worst since launch " + ms(times.longest_ever()) + ": " + most + "); " +
                           fixed_text(static_cast<double>(ImGui::GetIO().Framerate), 0) + " frames/s";
  const std::string shorter = "CPU per frame: p50 " + ms(last.p50) + ", p99 " + ms(last.p99) + ", worst " +
                              ms(times.longest_ever()) + " ms (" + most + ")";
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const float pad = panel.px(12), height = frame_times_height(panel);
  const std::string& shown = ImGui::CalcTextSize(text.c_str()).x <= screen.x - 2 * pad ? text : shorter;
  const ImVec2 size = ImGui::CalcTextSize(shown.c_str());
  const ImVec2 at{screen.x - pad - size.x, bottom - height + (height - size.y) / 2};
  ImGui::GetBackgroundDrawList()->AddText(at, views::to_imgui(panel.theme().palette.text), shown.c_str());
  panel.services.items->add_text("frame_times", {at.x, at.y, size.x, size.y}, text);
}

}  // namespace kvscope::app
