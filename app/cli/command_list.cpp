#include "app/cli/command_list.h"

#include <algorithm>
#include <cstdio>

#include "engine/core/policy/policy_table.h"
#include "engine/core/policy/policy_text.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"

namespace kvscope::app {

std::span<const CommandSpec* const> command_list() {
  static const CommandSpec* const list[] = {
      &run_command(),     &capture_command(), &merge_command(), &score_command(),   &tokenize_command(),
      &inspect_command(), &figure_command(),  &heads_command(), &what_if_command(), &compare_command(),
      &export_command(),  &train_command(),   &eval_command(),  &bench_command(),   &doctor_command(),
  };
  return list;
}

const CommandSpec* find_command(std::string_view name) {
  for (const CommandSpec* spec : command_list()) {
    if (spec->name == name) return spec;
  }
  return nullptr;
}

std::string general_help() {
  std::string text =
      "kvscope shows which tokens a language model keeps in its KV cache, which it evicts, and whether that was "
      "right.\n\n"
      "usage: kvscope [MODEL | TRACE]     open the window (on the sample model if nothing is given)\n"
      "       kvscope COMMAND ...         work without a window\n\n"
      "commands:\n";
  for (const CommandSpec* spec : command_list()) {
    char line[160];
    std::snprintf(line, sizeof line, "  %-10s %s\n", std::string(spec->name).c_str(),
                  std::string(spec->summary).c_str());
    text += line;
  }
  text +=
      "\noptions:\n"
      "  --help                     this text; kvscope COMMAND --help for one command\n"
      "  --version                  version and what it is built from\n"
      "  --engine COMMAND           engine for the window, e.g. \"ssh gpu01 kvscope-engine\"\n"
      "  --size WxH                 size of the window (1600x1000)\n"
      "  --scale X                  user interface scale, 0.5 to 3 (1)\n"
      "  --light                    light theme\n"
      "  --control PATH             listen on this Unix socket for commands, one JSON object a line\n"
      "  --script FILE              run a list of commands from a JSON file\n"
      "  --screenshot FILE.png      write a picture of the window when the script is done, or at once without one\n"
      "  --exit                     leave after --script and --screenshot\n\n"
      "A policy is written NAME:key=value,key=value, e.g. kvpop:budget=512,window=64; a budget is tokens "
      "(budget=512),\n"
      "a kept share (keep=25%) or a factor (compression=4x).\n"
      "Exit codes: 0 done, 1 usage, 2 bad input, 3 resource (device, disk, display), 4 internal, 130 cancelled.\n\n"
      "example:\n"
      "  kvscope run samples/models/kvscope-tiny --prompt-file samples/prompts/1-reversal.txt --policy kvpop:keep=25% "
      "--trace a.h5\n"
      "  kvscope figure --preset kvpop-fig6 a.h5 -o fig6.pdf\n";
  return text;
}

// What the policies declare of themselves (engine/core/policy/policy_list.h).
static std::string policy_help() {
  std::string text = "\npolicies:\n";
  for (const PolicyInfo& policy : policy_list()) {
    text += "  " + std::string(policy.name) + ": " + std::string(policy.definition) + "\n";
    for (const ParameterInfo& parameter : policy.parameters) {
      text += "    " + std::string(parameter.name) + "=" + parameter_value(parameter, parameter.default_value) + "   " +
              std::string(parameter.definition) + " (" + parameter_range(parameter) + ")\n";
    }
  }
  return text;
}

std::string command_help(const CommandSpec& spec) {
  std::string text = "usage: kvscope " + std::string(spec.name) + " " + std::string(spec.synopsis) + "\n\n";
  text += std::string(spec.details) + "\n\noptions:\n";
  for (const OptionSpec& option : spec.options) {
    std::string left = "  " + dashed(option.name);
    if (!option.value.empty()) left += " " + std::string(option.value);
    left.resize(std::max<std::size_t>(left.size() + 1, 28), ' ');
    text += left + std::string(option.help) + "\n";
  }
  if (std::ranges::any_of(spec.options, [](const OptionSpec& option) { return option.name == "policy"; }))
    text += policy_help();
  return text + "\nexample:\n" + std::string(spec.example) + "\n";
}

std::string version_text() {
  return "kvscope " + std::string(version()) + " (" + std::string(git_revision()) + ")\nprotocol " +
         std::to_string(protocol::kVersion) + ", compiler " + __VERSION__ + "\n";
}

int run_command_line(std::span<const std::string> words) {
  const CommandSpec* spec = find_command(words[0]);
  if (!spec) {
    throw Error({.code = ExitCode::usage, .file = words[0], .found = "no such command", .hint = "see kvscope --help"});
  }
  const auto rest = words.subspan(1);
  if (std::ranges::find(rest, "--help") != rest.end()) {
    std::fputs(command_help(*spec).c_str(), stdout);
    return 0;
  }
  return spec->run(Arguments::parse(*spec, rest));
}

}  // namespace kvscope::app
