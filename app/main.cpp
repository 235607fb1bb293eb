// kvscope: the window if a model, a trace or nothing is given, else one command.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "app/catalog/models.h"
#include "app/cli/command_list.h"
#include "app/cli/output.h"
#include "app/support/closest.h"
#include "app/support/interrupt.h"
#include "engine/core/support/error.h"
#include "engine/core/support/std_failure.h"
#include "engine/core/trace/study_file.h"
#include "engine/core/trace/trace_child.h"

namespace {

using namespace kvscope;

// The first word decides. What looks like a path is one, even if it is not there: "kvscope run.h5" with a typing error
// is a missing file, not an unknown command.
int dispatch(const std::vector<std::string>& words) {
  if (words.empty()) return app::window_main(words);
  const std::string& first = words[0];
  if (first == "--help" || first == "-h" || first == "help") {
    if (words.size() > 1 && app::find_command(words[1])) {
      std::fputs(app::command_help(*app::find_command(words[1])).c_str(), stdout);
    } else {
      std::fputs(app::general_help().c_str(), stdout);
    }
    return 0;
  }
  if (first == "--version") {
    std::fputs(app::version_text().c_str(), stdout);
    return 0;
  }
  if (app::find_command(first)) return app::run_command_line(words);
  std::error_code error;
  const bool path = first.find_first_of("/.") != std::string::npos || std::filesystem::exists(first, error);
  if (path || first.starts_with("-") || app::find_model(first)) {
    if (std::ranges::find(words, "--help") == words.end()) return app::window_main(words);
    std::fputs(app::general_help().c_str(), stdout);
    return 0;
  }
  std::vector<std::string_view> names;
  for (const app::CommandSpec* spec : app::command_list()) names.push_back(spec->name);
  const std::string close = app::closest(first, names);
  throw Error({.code = ExitCode::usage,
               .file = first,
               .found = "neither a command nor a file",
               .hint = close.empty() ? "see kvscope --help" : "did you mean kvscope " + close + "?"});
}

/// What the engine needs in its environment before its libraries are loaded (app/engine/main.cpp), so that it need not start
/// itself twice: 0.3 s of the first token's 2. Before there are threads.
void set_engine_environment() {
  ::setenv("OMP_WAIT_POLICY", "passive", 0);
  ::setenv("MKL_DYNAMIC", "FALSE", 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--trace-child") return trace_child_main(argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "--study-child") return study_child_main(argc, argv);
  app::end_on_interrupts();
  set_engine_environment();
  try {
    hdf5_start();
    const int code = dispatch(std::vector<std::string>(argv + 1, argv + argc));
    app::flush_stdout();
    return app::exit_code_of(code);
  } catch (const Error& error) {
    // A reader that has gone (| head) wants no line; what was kept in spite of it has been said.
    if (error.code() != ExitCode::closed_pipe) std::fprintf(stderr, "error: %s\n", error.what());
    return app::exit_code_of(static_cast<int>(error.code()));
  } catch (const std::exception& other) {
    const Error error = error_of(other);
    std::fprintf(stderr, "error: %s\n", error.what());
    return app::exit_code_of(static_cast<int>(error.code()));
  }
}
