#include "app/window/bench_ui.h"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <imgui.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "app/window/app_window.h"
#include "app/window/bench_runs.h"
#include "app/window/frame_times.h"
#include "engine/core/support/child_process.h"
#include "engine/core/support/error.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/support/text.h"
#include "views/widgets/rebuild.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int kSnapshotEvery = 6;  // frames: some ten snapshots a second, as an engine sends them
constexpr int kScrollEvery = 100;  // frames of a round of zooming, moving, scrubbing, all
constexpr double kSettle = 2, kMostSettling = 60, kAtRest = 2;  // seconds without a frame, seconds, % of a core

double process_cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

/// Since this process began, to a hundredth (the kernel's tick); NaN where /proc does not say.
double seconds_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const auto end = line.rfind(')');  // a name may hold anything
  if (end == std::string::npos) return std::numeric_limits<double>::quiet_NaN();
  std::istringstream rest(line.substr(end + 2));
  std::string word;
  for (int i = 0; i < 20; ++i) rest >> word;  // starttime is field 22
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         std::strtod(word.c_str(), nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

ordered_json rounded(double value) {
  if (std::isnan(value)) return nullptr;
  return std::round(value * 1000) / 1000;
}

ordered_json percentiles(const std::vector<double>& ms) {
  return {{"p50", rounded(percentile(ms, 0.5))},
          {"p95", rounded(percentile(ms, 0.95))},
          {"p99", rounded(percentile(ms, 0.99))},
          {"longest", rounded(percentile(ms, 1))}};
}

std::string line_of(const ordered_json& p) {
  const auto ms = [&](const char* key) {
    return p.at(key).is_number() ? fixed_text(p.at(key).get<double>(), 2) : std::string("-");
  };
  return "median " + ms("p50") + "  95 % " + ms("p95") + "  99 % " + ms("p99") + "  longest " + ms("longest") + " ms";
}

/// A file that goes with the object, however the bench ends.
struct Removed {
  std::filesystem::path path;
  ~Removed() {
    std::error_code ignored;
    if (!path.empty()) std::filesystem::remove(path, ignored);
  }
};

/// What hands do on a long run: zoom in, pan, scrub, drag a thumb, mark heads, all again.
void act(views::Selection& selection, const RunRecord& run, int frame) {
  const int n = run.n_tokens(), at = frame % kScrollEvery;
  const views::TokenSpan span = views::shown_span(selection, n);
  if (at < 30) views::show_span(selection, views::zoom_span(span, n, 0.9, 0.3), run);
  if (at >= 30 && at < 55) views::show_span(selection, views::pan_span(span, n, std::max(1, n / 650)), run);
  if (at >= 55 && at < 80) views::scrub_to(selection, n / 2 + (frame * 97) % std::max(1, n / 2 - 1), run);
  if (at >= 80 && at < 90) selection.map.clip = {true, 0, 1 - 0.05 * (at - 79)};
  if (at >= 90 && at < 95) {
    selection.heads = {};
    for (int i = 0; i <= at - 90; ++i) selection.heads.add({i % run.model.n_layers, i % run.model.n_kv_heads});
  }
  if (at == 96) selection.layers = !selection.layers;
  if (at == 98) views::show_span(selection, {}, run), selection.map.clip = {}, selection.heads = {};
}

}  // namespace

double percentile(std::vector<double> values, double p) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::ranges::sort(values);
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(rank, 1, values.size()) - 1];
}

std::string bench_text(const nlohmann::json& report) {
  std::string text = report.at("machine").at("processor").get<std::string>() + ", " +
                     std::to_string(report.at("machine").at("cores").get<int>()) + " cores, " +
                     report.at("machine").at("renderer").get<std::string>() + ", window " +
                     report.at("window").get<std::string>() + "\n";
  const auto say = [&](const std::string& name, const std::string& what) {
    text += name + std::string(name.size() < 26 ? 26 - name.size() : 1, ' ') + what + "\n";
  };
  if (report.at("first_frame_ms").is_number())
    say("first frame", fixed_text(report.at("first_frame_ms").get<double>(), 0) + " ms after the process started");
  for (const char* part : {"live", "trace"}) {
    if (!report.contains(part)) continue;
    const auto& one = report.at(part);
    const std::string name = part;
    say(name, one.at("what").get<std::string>());
    say("  CPU per frame", line_of(one.at("own_ms")));
    say("  raster per frame", line_of(one.at("raster_ms")));
    say("  total per frame", line_of(one.at("frame_ms")));
    if (one.contains("open_s"))
      say("  opened", "its first run in " + fixed_text(one.at("first_run_s").get<double>(), 2) + " s, all in " +
                          fixed_text(one.at("open_s").get<double>(), 2) + " s");
  }
  if (!report.contains("idle")) return text;
  const auto& idle = report.at("idle");
  say("idle", fixed_text(idle.at("cpu_percent").get<double>(), 2) + " % of a core over " +
                  fixed_text(idle.at("seconds").get<double>(), 1) + " s, " +
                  std::to_string(idle.at("frames").get<int>()) + " frames drawn; started " +
                  fixed_text(idle.at("settled_s").get<double>(), 1) + " s after the last input");
  const auto& taps = report.at("taps");
  if (taps.contains("not_measured"))
    say("key taps", "not measured: " + taps.at("not_measured").get<std::string>());
  else
    say("key taps",
        std::to_string(taps.at("lost").get<int>()) + " lost of " + std::to_string(taps.at("sent").get<int>()));
  return text;
}

// ------------------------------------------------------------------------------------------------ in the window

/// One round of the loop, drawn whatever is due; how long the rasteriser had.
double AppWindow::bench_round() {
  frame_times_.start();
  glfwPollEvents();
  take_input();
  workspace_.undo().observe();
  session_.poll();
  draw_frame();
  frame_times_.pause();
  return raster_ms_;
}

nlohmann::json AppWindow::bench_frames(const BenchUiOptions& options, std::shared_ptr<const RunRecord> growing) {
  std::vector<double> own, raster, whole;
  std::uint64_t revision = 1;
  for (int frame = -20; frame < options.frames; ++frame) {  // the first ones make textures and start threads
    if (growing && frame % kSnapshotEvery == 0) session_.runs().show_growing(growing, ++revision);
    if (session_.runs().shown_a()) act(session_.selection(), *session_.runs().shown_a()->run, frame + 20);
    const double raster_ms = bench_round();
    if (frame < 0) continue;
    raster.push_back(raster_ms);
    own.push_back(frame_times_.newest());
    whole.push_back(own.back() + raster_ms);
  }
  return ordered_json{{"frames", options.frames},
                      {"own_ms", percentiles(own)},
                      {"raster_ms", percentiles(raster)},
                      {"frame_ms", percentiles(whole)}};
}

nlohmann::json AppWindow::bench_live(const BenchUiOptions& options) {
  const auto run =
      std::make_shared<const RunRecord>(made_up_run(options.layers, options.kv_heads, options.tokens, false));
  nlohmann::json part = bench_frames(options, run);
  part["what"] = "a run in progress of " + std::to_string(options.layers) + " layers, " +
                 std::to_string(options.kv_heads) + " KV heads, " + std::to_string(options.tokens) +
                 " tokens, a snapshot every " + std::to_string(kSnapshotEvery) + " frames";
  RunRecord ended = *run;
  finish_run(ended, RunStatus::complete);
  session_.runs().show_growing(std::make_shared<const RunRecord>(std::move(ended)), 1u << 30);
  return part;
}

nlohmann::json AppWindow::bench_trace(const BenchUiOptions& options) {
  std::string path = options.trace;
  Removed written;
  if (path.empty())
    written.path = path = write_bench_trace(options.trace_mb, options.layers, options.kv_heads, options.tokens);
  const int before = session_.runs().a_id();
  const std::size_t n_before = session_.runs().all().size();
  const auto is_open = [&] { return session_.runs().a() && session_.runs().a()->id != before; };
  const auto begin = Clock::now();
  panel_.run("trace.open", {{"path", path}});
  while (!is_open() && seconds_since(begin) < 600 && session_.messages().banners().empty()) bench_round();
  const double first = seconds_since(begin);
  while (session_.files().busy() && seconds_since(begin) < 600) bench_round();
  const double opened = seconds_since(begin);
  if (!is_open())
    throw Error({.file = path, .found = "a trace that does not open here", .hint = "run kvscope inspect for details"});
  const RunRecord& run = *session_.runs().a()->run;
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  const std::size_t n_runs = session_.runs().all().size() - n_before;
  const std::string what = fixed_text(static_cast<double>(bytes) / 1e6, 1) + " MB, " + std::to_string(n_runs) +
                           (n_runs == 1 ? " run, " : " runs, ") + std::to_string(run.evict_at.n_layers()) +
                           " layers, " + std::to_string(run.evict_at.n_kv_heads()) + " KV heads, " +
                           std::to_string(run.n_tokens()) + " tokens";
  nlohmann::json part = bench_frames(options, nullptr);
  part["what"] = what, part["bytes"] = bytes, part["first_run_s"] = rounded(first), part["open_s"] = rounded(opened);
  return part;
}

/// Nobody touches the window: the loop as it always runs. What was asked for before, on other threads too, comes to its end
/// first; what does not end is measured.
nlohmann::json AppWindow::bench_idle(const BenchUiOptions& options) {
  struct Rest {
    double seconds, cpu_percent;
    std::uint64_t frames;
  };
  const auto rest = [this](double seconds) {
    const std::uint64_t frames = frame_;
    const double cpu = process_cpu_seconds();
    const auto begin = Clock::now();
    while (seconds_since(begin) < seconds) round();
    const double took = seconds_since(begin);
    return Rest{took, 100 * (process_cpu_seconds() - cpu) / took, frame_ - frames};
  };
  const auto begin = Clock::now();
  Rest settling = rest(kSettle);
  while (settling.frames > 0 || settling.cpu_percent > kAtRest || redraw_at_ != views::kNoRedraw) {
    if (seconds_since(begin) > kMostSettling) break;
    settling = rest(kSettle);
  }
  const double settled = seconds_since(begin);
  const Rest idle = rest(options.idle_seconds);
  return ordered_json{{"settled_s", rounded(settled)},
                      {"seconds", rounded(idle.seconds)},
                      {"cpu_percent", rounded(idle.cpu_percent)},
                      {"frames", idle.frames}};
}

/// The key of *One step later*, pressed by the X server as fast as a quick typist's; each tap is one step or lost.
nlohmann::json AppWindow::bench_taps(const BenchUiOptions& options) {
  if (!session_.runs().a() || session_.runs().a()->run->n_tokens() < options.taps + 1)
    return ordered_json{{"not_measured", "the shown run is too short"}};
  panel_.run("scrub.home");
  std::vector<std::string> words = {"xdotool", "search",  "--sync",      "--pid",  std::to_string(::getpid()),
                                    "--class", "kvscope", "windowfocus", "--sync", "key",
                                    "--delay", "12"};
  words.insert(words.end(), static_cast<std::size_t>(options.taps), "period");
  std::optional<ChildProcess> hand;
  try {
    hand.emplace(ChildProcess::start(words));
  } catch (const Error&) {
    return ordered_json{{"not_measured", "xdotool cannot be started here"}};
  }
  const auto begin = Clock::now();
  auto last_change = begin;
  std::optional<int> ended;
  int q = 0;
  while (seconds_since(begin) < 60 && (!ended || (q < options.taps && seconds_since(last_change) < 2))) {
    round();
    const int now = session_.selection().q.value_or(0);
    if (now != q) q = now, last_change = Clock::now();
    if (!ended && (ended = hand->wait(std::chrono::milliseconds(0)))) last_change = Clock::now();
  }
  if (ended != 0) return ordered_json{{"not_measured", "xdotool failed: it cannot press keys on this display"}};
  return ordered_json{{"sent", options.taps}, {"lost", options.taps - q}};
}

nlohmann::json AppWindow::bench(const BenchUiOptions& options) {
  working_ = true;  // no model is opened, and no engine begins
  ui_.arrangement = arrangement_of({"layer_head_map", "cache_timeline", "metric_by_layer", "head_board"});
  bench_round();
  const double first_frame = 1000 * seconds_of_process();
  ordered_json report;
  report["machine"] = {{"processor", processor_name()},
                       {"cores", std::thread::hardware_concurrency()},
                       {"renderer", window_.description()}};
  report["window"] = std::to_string(options_.width) + "x" + std::to_string(options_.height);
  report["first_frame_ms"] = rounded(first_frame);
  if (options.startup_only) return report;
  report["live"] = bench_live(options);
  if (options.frames_only) return report;
  if (!options.trace.empty() || options.trace_mb > 0) report["trace"] = bench_trace(options);
  report["idle"] = bench_idle(options);
  report["taps"] = bench_taps(options);
  return report;
}

}  // namespace kvscope::app
