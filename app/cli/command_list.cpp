#include "app/cli/command_list.h"

#include <algorithm>
#include <cstdio>

#include "app/cli/declared_policies.h"
#include "app/cli/output.h"
#include "app/cli/remote_traces.h"
#include "app/support/slow_read.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"

namespace kvscope::app {

// A command is declared here, takes its place in the list, and is defined in a file of its own.
extern const CommandSpec run_command;
extern const CommandSpec capture_command;
extern const CommandSpec import_command;
extern const CommandSpec merge_command;
extern const CommandSpec score_command;
extern const CommandSpec tokenize_command;
extern const CommandSpec inspect_command;
extern const CommandSpec gate_command;
extern const CommandSpec gates_command;
extern const CommandSpec figure_command;
extern const CommandSpec heads_command;
extern const CommandSpec hybrid_command;
extern const CommandSpec what_if_command;
extern const CommandSpec compare_command;
extern const CommandSpec export_command;
extern const CommandSpec train_command;
extern const CommandSpec eval_command;
extern const CommandSpec sweep_command;
extern const CommandSpec bench_command;
extern const CommandSpec models_command;
extern const CommandSpec policies_command;
extern const CommandSpec doctor_command;
extern const CommandSpec completions_command;
extern const CommandSpec manual_command;

std::span<const CommandSpec* const> command_list() {
  static const CommandSpec* const list[] = {
      &run_command,     &capture_command, &import_command,   &merge_command,  &score_command,       &tokenize_command,
      &inspect_command, &gate_command,    &gates_command,    &figure_command, &heads_command,       &hybrid_command,
      &what_if_command, &compare_command, &export_command,   &train_command,  &eval_command,        &sweep_command,
      &bench_command,   &models_command,  &policies_command, &doctor_command, &completions_command, &manual_command,
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
      "kvscope shows which tokens a language model keeps in its KV cache, and whether that was right.\n"
      "usage: kvscope [MODEL | TRACE]     open the window (default: SmolLM2 or the sample)\n"
      "       kvscope COMMAND ...         work without a window\n\n"
      "commands:\n";
  for (const CommandSpec* spec : command_list()) {
    char line[160];
    std::snprintf(line, sizeof line, "  %-12s %s\n", std::string(spec->name).c_str(),
                  std::string(spec->summary).c_str());
    text += line;
  }
  text +=
      "\noptions:\n"
      "  --engine COMMAND           engine for the window, e.g. \"ssh gpu01 kvscope-engine\"\n"
      "  --gate PATH|NAME           a gate for the window's model (kvscope gates); repeatable\n"
      "  --device NAME, --dtype NAME   auto, cpu or cuda; auto, float32 or bfloat16\n"
      "  --size WxH, --scale X, --light   window size (1600x1000), UI scale (0.5 to 3), light theme\n"
      "  --control PATH             listen on this Unix socket for commands, one JSON object per line\n"
      "  --script FILE, --screenshot FILE.png, --exit   run commands (JSON), save a picture, exit\n"
      "  --bench-startup, --bench-ui   measure: [TRACE] --frames --tokens --trace-mb --idle --json\n\n"
      "Exit codes: 0 done, 1 usage, 2 bad input, 3 resource, 4 internal; 130, 143, 129, 141 after a signal.\n"
      "More: kvscope COMMAND --help, kvscope --version, kvscope manual (files, environment variables).\n";
  return text;
}

std::string command_help(const CommandSpec& spec) {
  std::string text = wrapped("usage: kvscope " + std::string(spec.name) + " " + std::string(spec.synopsis), 2) + "\n";
  if (!spec.details.empty()) text += wrapped(spec.details) + "\n";
  text += "options:\n";
  const auto add = [&](const OptionSpec& option) {
    std::string left = "  " + dashed(option.name);
    if (!option.value.empty()) left += " " + std::string(option.value);
    left.resize(std::max<std::size_t>(left.size() + 1, 28), ' ');
    text += wrapped(left + std::string(option.help), 28);
  };
  for (const OptionSpec& option : spec.options) add(option);
  add({"help", "", "print this text"});
  return text + "example:\n" + std::string(spec.example) + "\n";
}

std::string version_text() {
  return "kvscope " + std::string(version()) + " (" + std::string(git_revision()) + ")\nprotocol " +
         std::to_string(protocol::kVersion) + ", compiler " + __VERSION__ + "\n";
}

int run_command_line(std::span<const std::string> words) {
  const CommandSpec* spec = find_command(words[0]);
  if (!spec) usage_error(words[0], "no such command", "", "see kvscope --help");
  const auto rest = words.subspan(1);
  if (std::ranges::find(rest, "--help") != rest.end()) {
    std::fputs(command_help(*spec).c_str(), stdout);
    return 0;
  }
  Arguments arguments = Arguments::parse(*spec, rest);
  say_slow_reads(arguments.has("quiet"));
  copy_remote_traces(arguments);
  learn_policies(arguments);
  return spec->run(arguments);
}

}  // namespace kvscope::app
