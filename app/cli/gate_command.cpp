// kvscope gate convert: any gate that can be read, in our own format and with other numbers.

#include <cstdio>
#include <filesystem>

#include "app/catalog/gate_summary.h"
#include "app/cli/arguments.h"
#include "app/cli/output.h"
#include "engine/core/files/gate/gate_formats.h"
#include "engine/core/policy/run_problems.h"
#include "engine/core/support/file.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr double kMaxNumber = 1e9;
constexpr int kMaxWindow = 1 << 24;

constexpr OptionSpec kGateOptions[] = {
    {"o", "DIR", "folder to write: gate.json and gate.safetensors"},
    {"threshold", "X", "a token stays if its score is at least X (default: the source's)"},
    {"strict", "on|off", "on: a token stays only if its score is above the threshold (default: the source's)"},
    {"window", "N",
     "keys that are always seen, including the query's own: 512 in DMS is 513 here (default: the source's)"},
    {"sinks", "N", "first tokens that always stay (default: the source's)"},
    {"scale", "X", "score = scale * output + offset (default: the source's)"},
    {"offset", "X", "see --scale"},
    {"description", "TEXT", "description shown by kvscope inspect"},
    {"overwrite", "", "overwrite an existing gate in DIR"},
    {"json", "", "one object, as from kvscope inspect"},
};

bool switch_of(const Arguments& arguments, std::string_view name, bool fallback) {
  const std::string text = arguments.text(name, fallback ? "on" : "off");
  if (text != "on" && text != "off") usage_error(dashed(name), in_quotes(text), "on or off");
  return text == "on";
}

void change_numbers(const Arguments& arguments, GateConfig& config) {
  config.threshold = arguments.real("threshold", config.threshold, -kMaxNumber, kMaxNumber);
  config.strict = switch_of(arguments, "strict", config.strict);
  config.n_sink = static_cast<int>(arguments.integer("sinks", config.n_sink, 0, kMaxWindow));
  config.scale = arguments.real("scale", config.scale, -kMaxNumber, kMaxNumber);
  config.offset = arguments.real("offset", config.offset, -kMaxNumber, kMaxNumber);
  const int window = static_cast<int>(arguments.integer("window", config.window, 1, kMaxWindow));
  // A score that waits, DMS's or a convolution's, goes with any window that it is there for.
  const bool is_fixed = fixes_window(name_of(config.kind), config.delay);
  if (is_fixed ? window != config.window : window < config.delay) {
    usage_error("--window", std::to_string(window),
                is_fixed ? std::to_string(config.window) : std::to_string(config.delay) + " or more",
                "a token's score is available " + std::to_string(config.delay) + " tokens after the token" +
                    (is_fixed ? ", no earlier and no later" : ""));
  }
  config.window = window;
}

int convert(const Arguments& arguments) {
  if (arguments.positionals()[0] != "convert") {
    usage_error("kvscope gate", in_quotes(arguments.positionals()[0]), "convert");
  }
  if (!arguments.has("o")) usage_error("kvscope gate convert", "no -o DIR", "", "give the folder to write");
  const fs::path source = arguments.positionals()[1], folder = arguments.text("o");
  GateFile gate = load_gate(source);
  const std::string said = gate_description(gate);
  change_numbers(arguments, gate.config);
  // A description that was made from the numbers is made again.
  if (gate.description.starts_with(said)) gate.description.replace(0, said.size(), gate_description(gate));
  gate.description = arguments.text("description", gate.description);
  const bool replace = arguments.has("overwrite");
  std::error_code none;
  for (const char* name : {kGateJson, kGateTensors})
    if (fs::is_directory(folder, none)) writable_target(folder / name, replace, {}, kOverwriteHint);
  save_gate(folder, gate, replace);
  const nlohmann::ordered_json summary = gate_summary(load_gate(folder));
  if (arguments.has("json")) {
    write_json_line(summary);
  } else {
    print_lines(summary);
  }
  return 0;
}

}  // namespace

extern const CommandSpec gate_command = {
    "gate",
    "convert PATH -o DIR [--threshold X] [--strict on|off] [--window N] [--sinks N]",
    "write a gate in KVScope's format, with other settings",
    "PATH is a gate in any supported format (docs/reference/gates.md). Threshold, strict, window and sinks become "
    "the defaults of the policies that read the gate; values given in a policy override them.",
    "  kvscope gate convert samples/models/kvscope-tiny -o tiny-gate --sinks 8",
    {2, 2},
    kGateOptions,
    convert};

}  // namespace kvscope::app
