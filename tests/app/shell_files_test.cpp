// What an installed KVScope gives shells, man and the desktop: completions, the man page, the desktop file.

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "app/cli/command_list.h"
#include "engine/core/policy/policy_text.h"
#include "tests/app/process.h"
#include "tests/support/skip.h"

using namespace kvscope;
using Catch::Matchers::Contains;
using test::kvscope_run;
using test::TemporaryFolder;
using Words = std::vector<std::string>;

namespace {

namespace fs = std::filesystem;

bool is_installed(const std::string& program) {
  return test::run({.argv = {"/bin/sh", "-c", "command -v " + program}}).exit_code == 0;
}

/// What bash offers for the last of `words`, which it has cut at = and : as it does at a prompt.
std::set<std::string> offered(Words words, const fs::path& folder = {}) {
  words.insert(words.begin(), test::kvscope().string());
  // compopt refuses outside of a prompt, which is no fault.
  const std::string script =
      "source <(\"$1\" completions bash) && COMP_WORDS=(\"${@:1}\") && COMP_CWORD=$(($# - 1)) && "
      "{ _kvscope || true; } && printf '%s\\n' \"${COMPREPLY[@]}\"";
  Words argv = {"/usr/bin/env", "bash", "-c", script, "bash"};
  argv.insert(argv.end(), words.begin(), words.end());
  const auto result = test::run({.argv = argv, .folder = folder});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  REQUIRE(result.err.empty());
  std::set<std::string> found;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    if (!line.empty()) found.insert(line);
  return found;
}

using Set = std::set<std::string>;

Set policy_names() {
  Set names;
  for (const PolicyInfo& policy : policy_list()) names.insert(std::string(policy.name));
  return names;
}

}  // namespace

TEST_CASE("bash completes every command, and of each exactly the options that its parser takes", "[shell]") {
  const Set first = offered({""});
  for (const app::CommandSpec* spec : app::command_list()) {
    INFO(spec->name);
    CHECK(first.contains(std::string(spec->name)));
    Set options = {"--help"};
    for (const app::OptionSpec& option : spec->options) options.insert(app::dashed(option.name));
    CHECK(offered({std::string(spec->name), "-"}) == options);
  }
  CHECK(offered({"wha"}) == Set{"what-if"});
  CHECK(offered({"--scr"}) == Set{"--screenshot", "--script"});
  CHECK(offered({"--vers"}) == Set{"--version"});
}

TEST_CASE("bash completes the values of an option that has a fixed set, also behind an equals sign", "[shell]") {
  CHECK(offered({"run", "kvscope-tiny", "--thinking", ""}) == Set{"on", "off"});
  CHECK(offered({"run", "kvscope-tiny", "--dtype", "=", "fl"}) == Set{"float32"});
  CHECK(offered({"run", "kvscope-tiny", "--dtype", "="}) == Set{"auto", "float32", "bfloat16"});
  CHECK(offered({"run", "kvscope-tiny", "--policy", ""}) == policy_names());
  CHECK(offered({"figure", "--venue", "ic"}) == Set{"iclr", "icml"});
  CHECK(offered({"figure", "--metric", "mass_r"}) == Set{"mass_recall"});
  CHECK(offered({"--device", "cu"}) == Set{"cuda"});
  CHECK(offered({"policies", "kvp"}) == Set{"kvpop"});
  CHECK(offered({"bench", "p"}) == Set{"policy", "prefill"});
  CHECK(offered({"bench", "sc"}) == Set{"score", "scoreboard"});
  CHECK(offered({"completions", ""}) == Set{"bash", "fish", "zsh"});
  CHECK(offered({"run", "kvscope-tiny", "--max-tokens", ""}).empty());  // a number
  CHECK(offered({"run", "kvscope-tiny", "--policy", "kvpop", ":", "bu"}).empty());
}

TEST_CASE("bash completes files, folders and models where a command takes them", "[shell]") {
  const TemporaryFolder folder;
  std::ofstream(folder / "a trace.h5") << "";
  std::ofstream(folder / "b.h5") << "";
  fs::create_directory(folder / "c");
  const auto here = [&](Words words) { return offered(std::move(words), folder.path()); };
  CHECK(here({"inspect", ""}) == Set{"a trace.h5", "b.h5", "c"});
  CHECK(here({"merge", "b.h5", "c/d.h5", ""}) == Set{"a trace.h5", "b.h5", "c"});
  CHECK(here({"run", "kvscope-tiny", "--trace", "b"}) == Set{"b.h5"});
  CHECK(here({"train", "r.json", "-o", ""}) == Set{"c"});
  CHECK(here({"run", "kvscope-ti"}) == Set{"kvscope-tiny"});
  CHECK(here({"run", "c"}) == Set{"c"});
  CHECK(here({"b."}) == Set{"b.h5"});
  CHECK(here({"what-if", "b.h5", "kvpo"}) == Set{"kvpop"});
  // Values of options are no positionals, whatever bash cuts them into.
  CHECK(here({"what-if", "--oracle", "mass", "=", "sum", "--run", "0", "b"}) == Set{"b.h5"});
  CHECK(here({"capture", "--policy", "kvpop", ":", "keep", "=", "25%", "kvscope-ti"}) == Set{"kvscope-tiny"});
}

TEST_CASE("Each shell reads its own script without a word, and finds every command and option in it", "[shell]") {
  const std::string shell = GENERATE("bash", "zsh", "fish");
  const auto script = kvscope_run({"completions", shell});
  REQUIRE(script.exit_code == 0);
  for (const app::CommandSpec* spec : app::command_list()) {
    CHECK_THAT(script.out, Contains(std::string(spec->name)));
    for (const app::OptionSpec& option : spec->options) CHECK_THAT(script.out, Contains(std::string(option.name)));
  }
  const TemporaryFolder folder;
  std::ofstream(folder / "script") << script.out;
  if (!is_installed(shell)) return test::skip((shell + " is not installed").c_str());
  const auto read = test::run({.argv = {"/usr/bin/env", shell, "-n", (folder / "script").string()}});
  CHECK(read.exit_code == 0);
  CHECK(read.err.empty());
}

TEST_CASE("fish completes from its script", "[shell]") {
  if (!is_installed("fish")) return test::skip("fish is not installed");
  const TemporaryFolder folder;
  const auto complete = [&](const std::string& line) {
    const std::string script = "$KVSCOPE completions fish | source; complete -C '" + line + "'";
    const auto result = test::run({.argv = {"/usr/bin/env", "fish", "-c", script},
                                   .environment = {{"KVSCOPE", test::kvscope().string()},
                                                   {"XDG_CONFIG_HOME", folder.path().string()},
                                                   {"XDG_DATA_HOME", folder.path().string()},
                                                   {"XDG_CACHE_HOME", folder.path().string()}}});
    INFO(result.err);
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK_THAT(complete("kvscope wha"), Contains("what-if\t"));
  CHECK_THAT(complete("kvscope run x --thinking "), Contains("off\t") && Contains("\non\t"));
  CHECK_THAT(complete("kvscope capture --pol"), Contains("--policy\t"));
  CHECK(complete("kvscope bench de") == "decode\n");
}

TEST_CASE("A shell without a script is refused with those that have one", "[shell]") {
  const auto result = kvscope_run({"completions", "tcsh"});
  CHECK(result.exit_code == 1);
  CHECK(result.err == "error: tcsh: no such shell; expected bash, zsh or fish\n");
  CHECK(kvscope_run({"completions"}).exit_code == 1);
}

TEST_CASE("The manual has every command with its options, every exit code and every variable that the sources read",
          "[shell]") {
  const auto manual = kvscope_run({"manual"});
  REQUIRE(manual.exit_code == 0);
  const std::string page = std::regex_replace(manual.out, std::regex(R"(\\-)"), "-");
  CHECK(page.starts_with(".TH KVSCOPE 1 "));
  for (const app::CommandSpec* spec : app::command_list()) {
    const auto begin = page.find("\n.SS \"kvscope " + std::string(spec->name) + "\"\n");
    REQUIRE(begin != std::string::npos);
    const std::string section = page.substr(begin, page.find("\n.S", begin + 1) - begin);
    CHECK_THAT(section, Contains("\nExample:\n"));
    for (const app::OptionSpec& option : spec->options)
      CHECK_THAT(section, Contains("\n\\fB" + app::dashed(option.name) + "\\fR"));
  }
  for (const char* code : {"0", "1", "2", "3", "4", "141"})
    CHECK_THAT(page, Contains("\\fB" + std::string(code) + "\\fR"));

  const std::regex read(R"re(getenv\("((KVSCOPE|XDG)_[A-Z_]+)"\))re");
  int found = 0;
  for (const char* folder : {"app", "engine", "views", "kernels"}) {
    for (const auto& entry : fs::recursive_directory_iterator(test::source_folder() / folder)) {
      if (entry.path().extension() != ".cpp") continue;
      const std::string source = test::read_text(entry.path());
      for (std::sregex_iterator it(source.begin(), source.end(), read), end; it != end; ++it, ++found) {
        const std::string name = (*it)[1];
        if (name != "KVSCOPE_ENGINE_CRASH_AT_TOKEN") CHECK_THAT(page, Contains(name));  // for tests
      }
    }
  }
  CHECK(found > 4);
}

TEST_CASE("man shows the manual without a warning", "[shell]") {
  const TemporaryFolder folder;
  const std::string page = (folder / "kvscope.1").string();
  std::ofstream(page) << kvscope_run({"manual"}).out;
  if (!is_installed("mandoc")) return test::skip("mandoc is not installed");
  const auto lint = test::run({.argv = {"/usr/bin/env", "mandoc", "-T", "lint", "-W", "warning", page}});
  CHECK(lint.exit_code == 0);
  CHECK(lint.out == "");
  CHECK_THAT(test::run({.argv = {"/usr/bin/env", "mandoc", "-T", "ascii", page}}).out,
             Contains("kvscope run samples/models/kvscope-tiny --prompt 'Numbers:'"));
}

TEST_CASE("The desktop file is valid and names the icon that is installed with it", "[shell]") {
  const std::string file = test::in_source("assets/kvscope.desktop"), text = test::read_text(file);
  CHECK_THAT(text, Contains("\nIcon=kvscope\n"));
  CHECK_THAT(test::read_text(test::in_source("assets/kvscope.svg")), Contains("<svg"));
  if (!is_installed("desktop-file-validate")) return test::skip("desktop-file-validate is not installed");
  const auto result = test::run({.argv = {"/usr/bin/env", "desktop-file-validate", file}});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "");
}
