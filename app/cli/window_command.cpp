#include <charconv>
#include <cstdio>
#include <filesystem>

#include "app/catalog/models.h"
#include "app/catalog/remote_file.h"
#include "app/cli/arguments.h"
#include "app/cli/command_list.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/window/app_window.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

constexpr OptionSpec kWindowOptions[] = {
    kEngineOption,
    kDeviceOption,
    kGateOption,
    kDtypeOption,
    {"size", "WxH", "size of the window"},
    {"scale", "X", "user interface scale"},
    {"light", "", "light theme"},
    {"empty", "", "start without the recorded run"},
    {"control", "PATH", "a Unix socket to listen on"},
    {"script", "FILE", "JSON commands to run"},
    {"screenshot", "FILE.png", "save a picture of the window"},
    {"exit", "", "exit after script and picture"},
    {"bench-ui", "", "measure the window on synthetic runs (or on TRACE) and exit"},
    {"bench-startup", "", "measure the first frame and exit"},
    {"frames", "N", "for --bench-ui: frames per part (600)"},
    {"tokens", "N", "for --bench-ui: tokens of the live run (131072)"},
    {"trace-mb", "N", "for --bench-ui: write, open and view a trace of about this size"},
    {"idle", "SECONDS", "for --bench-ui: seconds without input (5)"},
    {"json", "", "for --bench-ui and --bench-startup: one object"},
};

void parse_size(const std::string& text, int& width, int& height) {
  const auto x = text.find('x');
  const char* end = text.data() + text.size();
  const bool ok = x != std::string::npos &&
                  std::from_chars(text.data(), text.data() + x, width).ptr == text.data() + x &&
                  std::from_chars(text.data() + x + 1, end, height).ptr == end;
  if (!ok || width < 320 || height < 240 || width > 16384 || height > 16384)
    usage_error("--size", "'" + text + "'", "WxH, such as 1600x1000");
}

int bench_ui(const Arguments& arguments, WindowOptions options) {
  BenchUiOptions bench;
  bench.startup_only = !arguments.has("bench-ui");
  bench.frames = static_cast<int>(arguments.integer("frames", bench.frames, 1, 100000));
  bench.tokens = static_cast<int>(arguments.integer("tokens", bench.tokens, 64, 1 << 22));
  bench.trace_mb = static_cast<int>(arguments.integer("trace-mb", 0, 0, 16384));
  bench.idle_seconds = arguments.real("idle", bench.idle_seconds, 0.1, 3600);
  bench.trace = std::exchange(options.open, "");
  if (!bench.trace.empty() && std::filesystem::is_directory(bench.trace))
    usage_error("--bench-ui", "'" + bench.trace + "', a folder", "a trace, or nothing");
  options.bench = true;
  AppWindow window(options);
  const nlohmann::json report = window.bench(bench);
  if (arguments.has("json")) {
    write_json_line(report);
  } else {
    std::fputs(bench_text(report).c_str(), stdout);
  }
  return 0;
}

}  // namespace

extern const CommandSpec window_command = {"",     "[MODEL | TRACE] [options]", "", "", "", {0, 1}, kWindowOptions,
                                           nullptr};

int window_main(const std::vector<std::string>& words) {
  const Arguments arguments = Arguments::parse(window_command, words);
  WindowOptions options;
  if (!arguments.positionals().empty()) options.open = arguments.positionals()[0];
  std::error_code error;
  const auto remote = remote_file(options.open);
  if (!options.open.empty() && !(remote && remote->is_trace()) && !std::filesystem::exists(options.open, error)) {
    const auto named = find_model(options.open);
    if (!named) {
      throw Error({.file = options.open,
                   .found = "no such file or folder",
                   .expected = "a model's folder or name, a trace or a prompt",
                   .hint = remote ? remote_model_hint(options.open) : "kvscope models lists the model names"});
    }
    options.open = named->string();
  }
  const std::string folder = options.open.empty() ? first_model().string() : options.open;
  options.session = {.engine_command = arguments.text("engine"),
                     .device = arguments.text("device", "auto"),
                     .dtype = arguments.text("dtype", "auto"),
                     .gates = gates_for(engine_options(arguments), folder, {}),
                     .study_forms = study_forms(),
                     .wake = {}};
  if (arguments.has("size")) parse_size(arguments.text("size"), options.width, options.height);
  options.scale = static_cast<float>(arguments.real("scale", 0, 0.5, 3));
  options.light = arguments.has("light");
  options.empty = arguments.has("empty");
  options.control = arguments.text("control");
  options.script = arguments.text("script");
  options.screenshot = arguments.text("screenshot");
  options.exit = arguments.has("exit");
  const bool bench = arguments.has("bench-ui"), startup = arguments.has("bench-startup");
  for (const char* name : {"frames", "tokens", "trace-mb", "idle", "json"}) {
    if (!arguments.has(name) || bench || (startup && std::string_view(name) == "json")) continue;
    usage_error(("--" + std::string(name)).c_str(), "no --bench-ui", "--bench-ui as well");
  }
  if (bench || startup) return bench_ui(arguments, options);
  AppWindow window(options);
  return window.run();
}

}  // namespace kvscope::app
