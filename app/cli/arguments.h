#pragma once
// The command line's grammar: long options, declared once; usage errors, --help and suggestions come from the
// declaration.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/support/usage.h"

namespace kvscope::app {

struct OptionSpec {
  std::string_view name;   // "max-tokens", or "o" for -o
  std::string_view value;  // "N", "FILE"; empty for a flag
  std::string_view help;   // one line; says the default
  bool repeats = false;    // may be given more than once: texts()
};

class Arguments;
struct StartedEngine;  // app/engine_client/engine_job.h

struct CommandSpec {
  std::string_view name;      // "run"
  std::string_view synopsis;  // "MODEL --prompt TEXT | --prompt-file FILE"
  std::string_view summary;   // one line, for the list of commands
  std::string_view details;   // a paragraph for the command's own help
  std::string_view example;   // whole lines that can be pasted
  struct {
    int min, max;
  } positionals;
  std::span<const OptionSpec> options;     // besides --help, which all have
  int (*run)(const Arguments& arguments);  // returns the exit code; throws Error
};

/// Parsed arguments of one command. Getters throw Error (usage) naming option, value and range.
class Arguments {
 public:
  /// Accepts --name value, --name=value, -o value and "--" before positionals. Unknown options, missing values and a
  /// wrong number of positionals are an Error (usage) that names them and what comes close.
  static Arguments parse(const CommandSpec& spec, std::span<const std::string> words);

  bool has(std::string_view name) const { return values_.contains(name); }
  const std::vector<std::string>& positionals() const { return positionals_; }
  void set_positional(std::size_t i, std::string text) { positionals_[i] = std::move(text); }
  /// An engine that had to say what an argument means, for the command to go on with; null: none.
  const std::shared_ptr<StartedEngine>& started_engine() const { return started_engine_; }
  void set_started_engine(std::shared_ptr<StartedEngine> engine) { started_engine_ = std::move(engine); }
  std::string text(std::string_view name, std::string_view fallback = "") const;
  /// All values of an option that repeats, in order.
  std::vector<std::string> texts(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t min, std::int64_t max) const;
  double real(std::string_view name, double fallback, double min, double max) const;
  /// Text of --name or of the file that --name-file names ("-" is stdin). Throws if both or neither is given.
  std::string text_or_file(std::string_view name) const;
  const CommandSpec& spec() const { return *spec_; }

 private:
  const CommandSpec* spec_ = nullptr;
  std::map<std::string, std::string, std::less<>> values_;  // of one that repeats, the first
  std::map<std::string, std::vector<std::string>, std::less<>> repeated_;
  std::vector<std::string> positionals_;
  std::shared_ptr<StartedEngine> started_engine_;
};

/// "--max-tokens", "-o": an option's name as it is typed.
std::string dashed(std::string_view option_name);

}  // namespace kvscope::app
