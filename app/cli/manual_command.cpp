// kvscope manual: the man page, from the tables that the parser and --help use.

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <string>
#include <utility>

#include "app/cli/arguments.h"
#include "app/cli/command_list.h"
#include "app/cli/output.h"
#include "engine/core/support/version.h"

namespace kvscope::app {
namespace {

using ManualRow = std::pair<std::string_view, std::string_view>;

constexpr std::string_view kDescription[] = {
    "KVScope runs a language model under a KV-cache eviction policy and compares every eviction with an oracle: a "
    "reference that knows how much attention each token gets later. Without a command it opens a window on a model, a "
    "trace or a study. The commands do the same work without a window.",
    "MODEL is a name that kvscope models lists, or a folder in Hugging Face layout. TRACE is a file that records runs; "
    "[user@]host:path.h5 is one on another machine, which is copied over ssh. "
    "STUDY is a table of many runs. A policy is written NAME:key=value,key=value; kvscope policies lists them.",
    "Results go to standard output, progress and errors to standard error. No command replaces a file without "
    "--overwrite."};

constexpr ManualRow kExitCodes[] = {
    {"0", "done"},
    {"1", "usage: wrong or missing arguments"},
    {"2", "bad input: a file, model, gate or prompt"},
    {"3", "resource: device, disk, memory, engine, connection"},
    {"4", "internal error"},
    {"130, 143, 129", "stopped by Ctrl+C, TERM, HUP"},
    {"141", "standard output was closed by its reader"},
};

constexpr ManualRow kVariables[] = {
    {"KVSCOPE_ENGINE_TIMEOUT",
     "seconds that an engine may take to start, a scorer over a pipe to answer (60; 0: no limit)"},
    {"KVSCOPE_PROGRESS", "json: progress on stderr as lines {phase, value, max, text}"},
    {"KVSCOPE_SSH", "command to run instead of ssh to copy a trace from another machine, e.g. ssh -p 2222"},
    {"KVSCOPE_PYTHON", "the Python of --engine hf and of .npz recordings (python3)"},
    {"KVSCOPE_TORCH", "the folder of LibTorch, for an engine that does not find it"},
    {"KVSCOPE_SAMPLES, KVSCOPE_ASSETS", "folders of samples and assets, if not next to the program"},
    {"KVSCOPE_FONTS", "a folder with more fonts for window and figures"},
    {"KVSCOPE_THREADS", "threads of KVScope's own CPU kernels; OMP_NUM_THREADS limits these and LibTorch's"},
    {"KVSCOPE_SIDE_THREADS", "threads of a GPU engine for prompts and oracles beside decoding: 0 (default) to 16"},
    {"CUDA_VISIBLE_DEVICES", "GPUs that engines may use"},
    {"HF_HUB_CACHE, HF_HOME", "where the Hugging Face cache is"},
    {"XDG_CACHE_HOME, XDG_STATE_HOME, XDG_CONFIG_HOME",
     "where KVScope's files are (~/.cache, ~/.local/state, ~/.config)"},
};

constexpr ManualRow kFiles[] = {
    {"~/.local/state/kvscope/workspace", "runs, prompt and layout of the window, restored at the next launch"},
    {"~/.config/kvscope/settings.json", "theme, map colours, size, your layouts"},
    {"~/.cache/kvscope/models", "the model that ./setup fetched"},
    {"~/.cache/kvscope/remote", "copies of traces from other machines, at most 2 GiB"},
    {"TRACE.notes.json", "pins and notes of the runs of TRACE"},
};

/// As it is, letter for letter: no sign starts a request or becomes another one.
std::string literal(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '"':
        out += "\\(dq";
        break;
      default:
        out += c;
    }
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string literal_lines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += literal(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// Filled lines.
std::string prose(std::string_view text) { return literal_lines(wrapped(text)); }

std::string macro_line(std::string_view macro, std::string_view text) {
  return "." + std::string(macro) + " \"" + literal(text) + "\"\n";
}

/// "NAME VALUE", bold and italic, and its text below, indented.
std::string item(std::string_view name, std::string_view value, std::string_view text) {
  std::string out = ".TP\n\\fB" + literal(name) + "\\fR";
  if (!value.empty()) out += " \\fI" + literal(value) + "\\fR";
  return out + "\n" + prose(text);
}

template <typename Rows>
std::string table(std::string_view title, const Rows& rows) {
  std::string out = macro_line("SH", title);
  for (const auto& [name, text] : rows) out += item(name, "", text);
  return out;
}

std::string option_items(const CommandSpec& spec) {
  std::string out;
  for (const OptionSpec& option : spec.options) out += item(dashed(option.name), option.value, option.help);
  return out;
}

std::string command_section(const CommandSpec& spec) {
  std::string out = macro_line("SS", "kvscope " + std::string(spec.name));
  out += "\\fBkvscope " + literal(spec.name) + "\\fR " + literal(spec.synopsis) + "\n.PP\n";
  std::string summary = std::string(spec.summary) + ".";
  summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(summary[0])));
  out += prose(summary);
  if (!spec.details.empty()) out += ".PP\n" + prose(spec.details);
  out += option_items(spec);
  return out + ".PP\nExample:\n.PP\n.nf\n" + literal_lines(spec.example) + ".fi\n";
}

int manual(const Arguments&) {
  std::string page =
      ".TH KVSCOPE 1 \"" + std::string(commit_date()) + "\" \"KVScope " + std::string(version()) + "\"\n";
  page += ".ad l\n.nh\n";  // long words leave gaps in adjusted lines, and names are not to be cut
  page += macro_line("SH", "NAME") + "kvscope \\- shows which tokens a language model keeps in its KV cache\n";
  page += macro_line("SH", "SYNOPSIS") + "\\fBkvscope\\fR [MODEL | TRACE | STUDY] [options]\n.br\n" +
          "\\fBkvscope\\fR COMMAND ...\n";
  page += macro_line("SH", "DESCRIPTION");
  for (std::size_t i = 0; i < std::size(kDescription); ++i) page += (i > 0 ? ".PP\n" : "") + prose(kDescription[i]);
  page += macro_line("SH", "OPTIONS") + item("--help", "", "a summary; kvscope COMMAND --help explains a command") +
          item("--version", "", "the version of the program and of its protocol") +
          ".PP\nThe window takes these options:\n" + option_items(window_command);
  page += macro_line("SH", "COMMANDS");
  for (const CommandSpec* spec : command_list()) page += command_section(*spec);
  page += table("EXIT STATUS", kExitCodes) + table("ENVIRONMENT", kVariables) + table("FILES", kFiles);
  std::fputs(page.c_str(), stdout);
  return 0;
}

}  // namespace

extern const CommandSpec manual_command = {"manual",
                                           "",
                                           "print the man page, with all commands, files and environment variables",
                                           "The page is in roff. An installed KVScope shows it with man kvscope.",
                                           "  kvscope manual > kvscope.1 && man -l kvscope.1",
                                           {0, 0},
                                           {},
                                           manual};

}  // namespace kvscope::app
