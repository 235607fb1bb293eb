#pragma once
// kvscope --bench-ui: what the window costs on this machine, measured in the real window over runs that are made up.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace kvscope::app {

struct BenchUiOptions {
  bool startup_only = false;  // the first frame and nothing else
  bool frames_only = false;   // the live run and nothing after it
  int frames = 600;           // of each part, while the view is zoomed, moved and scrubbed without pause
  int tokens = 131072;        // of the live run
  int layers = 36, kv_heads = 8;
  int trace_mb = 0;   // of the trace that is written, opened and looked at; 0: none
  std::string trace;  // this one instead
  double idle_seconds = 5;
  int taps = 50;  // of a key, by xdotool
};

/// Share `p` of the values are at most this: the nearest rank, as FrameTimes has it. NaN of none.
double percentile(std::vector<double> values, double p);
/// The report as lines for a person.
std::string bench_text(const nlohmann::json& report);

}  // namespace kvscope::app
