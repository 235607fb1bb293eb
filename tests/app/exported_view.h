#pragma once
// A view's export, and the command line that makes it again.

#include <catch2/catch.hpp>
#include <string>

#include "tests/app/process.h"
#include "tests/app/program.h"
#include "tests/support/folders.h"

namespace kvscope::test {

/// Exports the view, draws its recipe again with `kvscope figure`, and checks that both wrote the same bytes. Returns the numbers, CSV.
inline std::string check_export(Program& program, const TemporaryFolder& folder, const std::string& view) {
  const std::string first = (folder / "first.svg").string(), again = (folder / "again.svg").string();
  program.commands.execute("figure.export", {{"view", view}, {"path", first}});
  program.settle();
  const auto made = kvscope_run({"figure", (folder / "first.json").string(), "-o", again});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  for (const std::string ending : {".svg", ".figure.csv", ".json"})
    CHECK((read_text(folder / ("first" + ending)) == read_text(folder / ("again" + ending))));
  return read_text(folder / "first.figure.csv");
}

}  // namespace kvscope::test
