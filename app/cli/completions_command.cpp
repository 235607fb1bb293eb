// kvscope completions: a shell's completion script, from the tables that the parser and --help use.

#include <algorithm>
#include <cstdio>
#include <map>

#include "app/cli/command_list.h"
#include "app/cli/completion_places.h"
#include "engine/core/support/shell_quote.h"

namespace kvscope::app {
namespace {

/// In one line.
std::string quoted(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return single_quoted(text);
}

// ---- bash

constexpr const char* kBashHead = R"bash(_kvscope_words() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur")
  [[ -z $2 ]] || compopt -o nospace 2> /dev/null
}
_kvscope_files() {
  compopt -o filenames 2> /dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$cur")
}
_kvscope_models() {
  _kvscope_files -d
  local names
  names=$("${COMP_WORDS[0]/#\~/$HOME}" models 2> /dev/null | awk 'NR > 1 && !/ not here / { print $1 }')
  mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W "$names" -- "$cur")
}
_kvscope() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= options= valued= last=0 n=0 i
  COMPREPLY=()
  # Bash cuts words at = and : too. Nothing is known of what follows NAME:, as in kvpop:budget=512.
  [[ $cur == : || $prev == : ]] && return
  if [[ $cur == '=' ]]; then
    cur=
  elif [[ $prev == '=' ]]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $prev == -* ]] || return
  fi
)bash";

constexpr const char* kBashPlaces = R"bash(  for ((i = ${#command} > 0 ? 2 : 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      [:=]) ((++i)) ;;
      -*) if [[ $valued == *" ${COMP_WORDS[i]} "* ]]; then
        ((++i))
        [[ ${COMP_WORDS[i]} != '=' ]] || ((++i))
      fi ;;
      *) ((++n)) ;;
    esac
  done
  ((n <= last)) || n=$last
  if [[ $valued == *" $prev "* ]]; then
    n=$prev
  elif [[ $cur == -* ]]; then
    _kvscope_words "$options"
    return
  fi
  case "$command $n" in
)bash";

std::string bash_action(const Place& place) {
  switch (place.kind) {
    case Place::Kind::nothing:
      return "";
    case Place::Kind::words:
      return "_kvscope_words " + quoted(place.words) + (place.is_open ? " open" : "");
    case Place::Kind::models:
      return "_kvscope_models";
    case Place::Kind::files:
      return "_kvscope_files -f";
    case Place::Kind::folders:
      return "_kvscope_files -d";
  }
  return "";
}

std::string bash_script() {
  std::string names, tables;
  std::map<Place, std::string> patterns;  // "run --trace" and "run 0", by what completes them
  for (const CommandSpec* spec : all_specs()) {
    std::string options, valued;
    const auto add = [&](const Place& place, const std::string& word) {
      std::string& pattern = patterns[place];
      pattern.append(pattern.empty() ? "" : " | ").append(quoted(std::string(spec->name) + " " + word));
    };
    for (const OptionSpec& option : options_of(*spec)) {
      options += " " + dashed(option.name);
      if (option.value.empty()) continue;
      valued += " " + dashed(option.name);
      add(place_of(option), dashed(option.name));
    }
    const std::vector<Place> places = positional_places(*spec);
    for (std::size_t i = 0; !spec->name.empty() && i < places.size(); ++i) add(places[i], std::to_string(i));
    const std::string name = spec->name.empty() ? "*" : std::string(spec->name);
    if (!spec->name.empty()) names += (names.empty() ? "" : " ") + name;
    tables += "    " + name + ") options=" + quoted(options) + " valued=" + quoted(valued + " ") +
              " last=" + std::to_string(std::max<std::size_t>(places.size(), 1) - 1) + " ;;\n";
  }
  std::string text =
      kBashHead + std::string("  case \" ") + names +
      " \" in\n    *\" ${COMP_WORDS[1]} \"*) ((COMP_CWORD == 1)) || command=${COMP_WORDS[1]} ;;\n  esac\n"
      "  case $command in\n" +
      tables + "  esac\n" + kBashPlaces;
  for (const auto& [place, pattern] : patterns) {
    if (place.kind != Place::Kind::nothing) text += "    " + pattern + ") " + bash_action(place) + " ;;\n";
  }
  return text +
         "    ' 0')\n      _kvscope_models\n      local models=(\"${COMPREPLY[@]}\")\n      "
         "((COMP_CWORD > 1)) || _kvscope_words " +
         quoted(names) +
         "\n      local commands=(\"${COMPREPLY[@]}\")\n      _kvscope_files -f\n"
         "      mapfile -t COMPREPLY < <(printf '%s\\n' \"${commands[@]}\" \"${models[@]}\" \"${COMPREPLY[@]}\" | sort -u)\n"
         "      ;;\n  esac\n}\ncomplete -F _kvscope kvscope\n";
}

// ---- zsh

constexpr const char* kZshHead = R"zsh(_kvscope_models() {
  local -a models
  models=(${(f)"$(kvscope models 2> /dev/null | awk 'NR > 1 && !/ not here / { print $1 }')"})
  compadd -a models
  _files -/
}
_kvscope_first() {
  _describe command commands
  _kvscope_models
  _files
}
)zsh";

std::string zsh_action(const Place& place) {
  switch (place.kind) {
    case Place::Kind::nothing:
      return " ";
    case Place::Kind::words:
      return place.is_open ? "{compadd -S \"\" - " + place.words + "}" : "(" + place.words + ")";
    case Place::Kind::models:
      return "_kvscope_models";
    case Place::Kind::files:
      return "_files";
    case Place::Kind::folders:
      return "_files -/";
  }
  return "";
}

/// With a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) (special.find(c) == std::string_view::npos ? out : out += '\\') += c;
  return out;
}

std::string zsh_arguments(const CommandSpec& spec) {
  std::string text = "_arguments";
  for (const OptionSpec& option : options_of(spec)) {
    std::string line = (option.repeats ? "*" : "") + dashed(option.name);
    if (!option.value.empty() && option.name.size() > 1) line += "=";
    line += "[" + escaped(option.help, "[]\\") + "]";
    if (!option.value.empty()) line += ":" + escaped(option.value, ":\\") + ":" + zsh_action(place_of(option));
    text += " \\\n        " + quoted(line);
  }
  const std::vector<Place> places = positional_places(spec);
  for (std::size_t i = 0; !spec.name.empty() && i < places.size(); ++i) {
    const bool repeats = i + 1 == places.size() && spec.positionals.max > static_cast<int>(i) + 1;
    text += " \\\n        " + quoted((repeats ? "*" : std::to_string(i + 1)) + ":argument:" + zsh_action(places[i]));
  }
  return text + (spec.name.empty() ? " \\\n        '1:command:_kvscope_first'" : "");
}

std::string zsh_script() {
  std::string commands, cases;
  for (const CommandSpec* spec : command_list()) {
    commands += "    " + quoted(escaped(spec->name, ":") + ":" + std::string(spec->summary)) + "\n";
    cases += "    " + std::string(spec->name) + ")\n      " + zsh_arguments(*spec) + "\n      ;;\n";
  }
  return "#compdef kvscope\n" + std::string(kZshHead) + "_kvscope() {\n  local -a commands\n  commands=(\n" + commands +
         "  )\n  if ((CURRENT == 2)) || [[ -z ${commands[(r)$words[2]:*]} ]]; then\n    " +
         zsh_arguments(window_command) +
         "\n    return\n  fi\n  local command=$words[2]\n  shift words\n  ((--CURRENT))\n  case $command in\n" + cases +
         "  esac\n}\nif [[ $funcstack[1] == _kvscope ]]; then _kvscope \"$@\"; else compdef _kvscope kvscope; fi\n";
}

// ---- fish

constexpr const char* kFishHead = R"fish(function __kvscope_is
  set -l words (commandline -opc)
  test (count $words) -gt 1; and test "$words[2]" = $argv[1]
end
function __kvscope_models
  kvscope models 2> /dev/null | awk 'NR > 1 && !/ not here / { print $1 }'
end
)fish";

/// "-r -F", "-x -a 'on off'".
std::string fish_action(const Place& place) {
  switch (place.kind) {
    case Place::Kind::nothing:
      return "-x";
    case Place::Kind::words:
      return "-x -a " + quoted(place.words);
    case Place::Kind::models:
      return "-x -a '(__kvscope_models) (__fish_complete_directories)'";
    case Place::Kind::files:
      return "-r -F";
    case Place::Kind::folders:
      return "-x -a '(__fish_complete_directories)'";
  }
  return "";
}

std::string fish_script() {
  std::string text = kFishHead;
  for (const CommandSpec* spec : all_specs()) {
    const std::string name(spec->name);
    const std::string line =
        "complete -c kvscope -n " + (name.empty() ? "__fish_use_subcommand" : quoted("__kvscope_is " + name)) + " ";
    if (!name.empty())
      text += "complete -c kvscope -n __fish_use_subcommand -a " + name + " -d " + quoted(std::string(spec->summary)) +
              "\n";
    for (const OptionSpec& option : options_of(*spec)) {
      text += line + (option.name.size() == 1 ? "-s " : "-l ") + std::string(option.name);
      if (!option.value.empty()) text += " " + fish_action(place_of(option));
      text += " -d " + quoted(std::string(option.help)) + "\n";
    }
    const std::vector<Place> places = positional_places(*spec);
    if (places.empty()) text += line + "-f\n";
    for (const Place& place : places) {
      if (place.kind == Place::Kind::words) text += line + "-f -a " + quoted(place.words) + "\n";
      if (place.kind == Place::Kind::models) text += line + "-a '(__kvscope_models)'\n";
    }
  }
  return text + "complete -c kvscope -n __fish_use_subcommand -a '(__kvscope_models)'\n";
}

int completions(const Arguments& arguments) {
  const std::string& shell = arguments.positionals()[0];
  if (shell != "bash" && shell != "zsh" && shell != "fish") usage_error(shell, "no such shell", "bash, zsh or fish");
  std::fputs((shell == "bash" ? bash_script() : shell == "zsh" ? zsh_script() : fish_script()).c_str(), stdout);
  return 0;
}

}  // namespace

extern const CommandSpec completions_command = {
    "completions",
    "bash|zsh|fish",
    "print a shell's completion script",
    "The script completes commands, options, values with a fixed set, models and files. To load it at each start of "
    "bash, add the line source <(kvscope completions bash) to ~/.bashrc. An installed KVScope has it already.",
    "  kvscope completions bash > ~/.local/share/bash-completion/completions/kvscope",
    {1, 1},
    {},
    completions};

}  // namespace kvscope::app
