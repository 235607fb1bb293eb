#pragma once
// Programs of ours as processes, and folders to throw away.

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/folders.h"
#include "tests/support/slowdown.h"

namespace kvscope::test {

struct Result {
  int exit_code = -1;           // -1 if it was killed
  int killed_by = 0;            // that signal
  double after_interrupt = -1;  // seconds from the interrupt to its end; negative if it had ended before
  std::string out, err;
  double cpu_seconds = 0;          // user + system
  double seconds = 0;              // by the clock
  std::int64_t max_rss_bytes = 0;  // resident at most: its own, or that of a child that it waited for, if greater
};

struct Launch {
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;  // over ours; an empty value removes the variable
  std::filesystem::path folder;                    // to work in; empty: ours
  double interrupt_after = -1;                     // seconds until `interrupt`
  std::function<bool()> interrupt_when = {};       // or as soon as this holds: no clock knows how far a program is
  int interrupt = SIGINT;
  bool whole_group = false;  // it gets a process group of its own, all of which is interrupted, as a terminal does it
  double timeout = 60 * kSlowdown;       // seconds until it is killed
  std::function<bool()> kill_when = {};  // or as soon as this holds
};
Result run(const Launch& launch);

std::filesystem::path kvscope();
std::filesystem::path fake_engine();
/// Empty if it is not built.
std::filesystem::path real_engine();
std::filesystem::path sample_model();
/// A model's folder with links to these files of the sample's; made if it is not there.
void link_sample_model(const std::filesystem::path& folder,
                       const std::vector<std::string>& names = {"config.json", "tokenizer.json"});
inline const std::vector<std::string> kWholeModel = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                                     "model.safetensors"};
/// run() of kvscope with these words.
Result kvscope_run(const std::vector<std::string>& words);

/// A variable of this process' environment, as it was again at the end.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

/// Removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& path);
int count_lines(const std::string& text);

}  // namespace kvscope::test
