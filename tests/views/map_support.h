#pragma once
// Runs whose heads differ, columns of a figure's data, and a drag over what is drawn: for the tests of the layer x head map.

#include <imgui.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/random_run.h"
#include "views/figure/figure.h"

namespace kvscope::test {

/// Heads keep what their scores are worth: their densities differ.
inline RunRecord uneven(std::uint64_t seed = 3) {
  return random_run(seed, {.policy = "threshold:threshold=0,sinks=4,window=16", .n_layers = 3, .n_kv_heads = 4});
}

inline const std::vector<double>& column(const views::BuiltFigure& built, const std::string& name) {
  for (const views::FigureColumn& c : built.data.columns) {
    if (c.name == name) return std::get<std::vector<double>>(c.values);
  }
  throw std::runtime_error("no column " + name);
}
inline std::vector<std::int64_t> whole(const views::BuiltFigure& built, const std::string& name) {
  for (const views::FigureColumn& c : built.data.columns) {
    if (c.name == name) return std::get<std::vector<std::int64_t>>(c.values);
  }
  return {};
}

/// From the middle of one item to that of another with the button held, one frame a step.
template <typename Stage>
void drag(Stage& s, const std::string& from, const std::string& to, float dy = 0) {
  const auto a = s.window.items.find(from), b = s.window.items.find(to);
  REQUIRE(a.has_value());
  REQUIRE(b.has_value());
  ImGuiIO& io = ImGui::GetIO();
  const auto step = [&](float x, float y, bool down) {
    io.MousePos = {x, y};
    io.MouseDown[0] = down;
    s.draw(1);
  };
  step(a->centre_x(), a->centre_y(), false);
  step(a->centre_x(), a->centre_y(), true);
  step((a->centre_x() + b->centre_x()) / 2, (a->centre_y() + b->centre_y() + dy) / 2, true);
  step(b->centre_x(), b->centre_y() + dy, true);
  step(b->centre_x(), b->centre_y() + dy, false);
  step(b->centre_x(), b->centre_y() + dy, false);
}

}  // namespace kvscope::test
