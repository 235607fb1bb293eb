#pragma once
// A slider whose value stands beside it, in a field that can be typed into: a knob covers nothing, and nobody has to know
// that Ctrl and a click turn a slider into a field.

#include <optional>
#include <string>

namespace kvscope::app {

struct Panel;

/// How far sliders of tokens go: to a power of two, at least 1024, that the run's positions fit in. An end that followed the
/// prompt's length would move the knobs while it is typed; while that is being counted they stay as they are.
int slider_reach(Panel& panel);

struct ValueSlider {
  std::string item;  // "policy.sinks"; its rectangle is the slider's, "policy.sinks.field" that of the field;
                     // "policy.sinks.range" says "0 to 1024"
  double value = 0, min = 0, max = 1;
  int decimals = 0;       // in the field
  int drag_decimals = 0;  // that the knob moves in; what is typed is taken as it is
  std::string unit = {};  // after the number in the field: " %"
  bool by_ratio = false;
  std::string word = {};  // shown in the field instead of the number
  std::string told = {};  // the text of the item; empty: the text in the field
  float right = 0;        // room left free at the right, in pixels
  std::string hint = {};  // tooltip of both
};

/// The value it was moved to or that was typed, which may lie outside min ... max. Nothing if it was left alone.
std::optional<double> value_slider(Panel& panel, const ValueSlider& slider);

}  // namespace kvscope::app
