// A trace of many runs that is opened in the window: each run is there once it is read, and closing it ends the reading.

#include <hdf5.h>

#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "app/command/app_commands.h"
#include "app/session/session.h"
#include "engine/core/support/hash.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_schema.h"
#include "tests/app/poll_until.h"
#include "tests/app/process.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::app;

namespace {

namespace fs = std::filesystem;

struct Fixture {
  Fixture() { add_run_commands(commands, session, ui); }
  template <typename Condition>
  void wait(Condition condition) {
    test::poll_until(session, condition);
  }
  void wait_for_runs(std::size_t n) {
    wait([&] { return session.runs().all().size() == n; });
  }
  void wait_for_files() {
    wait([&] { return !session.files().busy(); });
  }

  Session session{{.engine_command = "exit 9", .trace_program = test::kvscope().string(), .wake = [] {}}};
  CommandRegistry commands;
  UiState ui;
};

std::string write_runs(const fs::path& path, int n_runs, std::uint64_t seed = 1) {
  const RunRecord run = test::random_run(seed);
  TraceWriter writer(path, run.model, {.max_runs = n_runs, .max_positions = run.n_tokens()});
  for (int i = 0; i < n_runs; ++i) writer.add(run);
  writer.finish();
  return path.string();
}

/// The checksum of run `index` is another one.
void damage(const fs::path& path, int index, int n_runs) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, trace::schema(trace::Dataset::checksum).path, H5P_DEFAULT);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(n_runs));
  REQUIRE(H5Dread(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, sums.data()) >= 0);
  ++sums[static_cast<std::size_t>(index)];
  REQUIRE(H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, sums.data()) >= 0);
  H5Dclose(dataset);
  H5Fclose(file);
}

}  // namespace

// A trace of 1 GB was 53 seconds of nothing.
TEST_CASE("The first run of a trace is on show while the others are read, which come in their order") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 5);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  CHECK_FALSE(session.traces().reading());
  for (int n = 1; n <= 5; ++n) {
    fixture.wait(
        [&] { return !session.runs().all().empty() && session.runs().all().size() >= static_cast<std::size_t>(n); });
    REQUIRE(session.runs().all().size() == static_cast<std::size_t>(n));  // one at a time
    CHECK(session.runs().all().back().trace_run == n - 1);
    CHECK(session.runs().a()->id == 1);
    CHECK(session.files().busy() == (n < 5));
    CHECK(session.traces().reading().has_value() == (n < 5));
    if (n == 5) break;
    CHECK(session.traces().reading()->path == path);
    CHECK(session.traces().reading()->n_read == n);
    CHECK(session.traces().reading()->n_runs == 5);
  }
  CHECK(session.messages().notice() == "5 runs from " + path);
  CHECK(session.files().recent().front() == path);
}

TEST_CASE("A run that is shown while a trace is read stays on show, and other files go between two of its runs") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 6);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait_for_runs(2);
  session.runs().show(2, 1);
  session.traces().save(1, (folder / "b.h5").string(), false);
  fixture.wait([&] { return fs::exists(folder / "b.h5"); });
  CHECK(session.runs().all().size() < 6);  // it did not wait for them
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 6);
  CHECK(session.runs().a()->id == 2);
  CHECK(session.runs().b()->id == 1);
}

TEST_CASE("A trace that is closed while it is read has no more runs") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 6), other = write_runs(folder / "b.h5", 2);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(other);
  fixture.wait_for_files();
  session.traces().open(path);
  fixture.wait_for_runs(5);
  fixture.commands.execute("trace.close", {{"trace", path}});
  CHECK(session.runs().all().size() == 2);
  CHECK(session.runs().a()->id == 2);  // the newest of those that are left
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 2);
  CHECK_FALSE(session.traces().reading());
  CHECK(session.messages().banners().empty());
  CHECK_THROWS_AS(fixture.commands.execute("trace.close", {{"trace", path}}), Error);
  fixture.commands.execute("trace.close", {{"trace", other}});
  CHECK(session.runs().all().empty());
  CHECK(session.runs().removed_ids().size() == 5);  // Undo has them
}

TEST_CASE("A trace that was closed while it was read is read to its end once the close is undone") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 6);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait_for_runs(2);
  fixture.commands.execute("trace.close", {{"trace", path}});
  fixture.wait_for_files();
  REQUIRE(session.runs().all().empty());
  if (session.runs().set_removed({})) session.traces().read_on();
  CHECK(session.runs().all().size() == 2);
  fixture.wait_for_files();
  REQUIRE(session.runs().all().size() == 6);
  for (int i = 0; i < 6; ++i) CHECK(session.runs().all()[static_cast<std::size_t>(i)].trace_run == i);
  CHECK(session.messages().notice() == "6 runs from " + path);
  CHECK(session.messages().banners().empty());
}

// It added all its runs a second time.
TEST_CASE("A trace that is open already is not added again, by whatever path it is named, and what is on show stays") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 3);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait_for_files();
  session.runs().show(2, 3);
  const int n_brought = session.runs().in_sight().n;
  session.traces().open((folder / "x/../a.h5").string());
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 3);
  CHECK(session.messages().notice() == "already open: 3 runs from " + path);
  CHECK(session.runs().a()->id == 2);
  CHECK(session.runs().b()->id == 3);
  CHECK(session.runs().in_sight().id == 2);
  CHECK(session.runs().in_sight().n > n_brought);
  session.traces().save(1, (folder / "b.h5").string(), false);
  fixture.wait_for_files();
  session.traces().open((folder / "b.h5").string());
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 3);  // run 1 is what that file has
  CHECK(session.runs().a()->id == 1);
}

TEST_CASE("A trace that was closed and is opened again has the runs that it had") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 3);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait_for_files();
  fixture.commands.execute("trace.close", {{"trace", path}});
  session.traces().open(path);
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 3);
  CHECK(session.runs().removed_ids().empty());
  CHECK(session.runs().a()->id == 1);
  CHECK(session.messages().notice() == "3 runs from " + path);  // they were not open
}

TEST_CASE("Of a trace whose file has changed since it was opened the runs that are new are added") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 2);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait_for_files();
  SECTION("a capture has gone on") {
    fs::remove(path);
    write_runs(path, 5);
    session.traces().open(path);
    fixture.wait_for_files();
    CHECK(session.runs().all().size() == 5);
    CHECK(session.messages().notice() == "3 new of 5 runs from " + path);
  }
  SECTION("it is another file") {
    fs::remove(path);
    write_runs(path, 1, 2);
    session.traces().open(path);
    fixture.wait_for_files();
    REQUIRE(session.runs().all().size() == 3);
    CHECK(session.runs().a()->id == 3);
  }
}

TEST_CASE("Where a run of a trace is damaged those before it are there, and a line says which it is") {
  const test::TemporaryFolder folder;
  const std::string path = write_runs(folder / "a.h5", 4);
  damage(path, 2, 4);
  Fixture fixture;
  Session& session = fixture.session;
  session.traces().open(path);
  fixture.wait([&] { return !session.messages().banners().empty(); });
  fixture.wait_for_files();
  CHECK(session.runs().all().size() == 2);
  CHECK(session.runs().a()->id == 1);
  CHECK_FALSE(session.traces().reading());
  REQUIRE(session.messages().banners().size() == 1);
  const std::string text = session.messages().banners()[0].text;
  CHECK_THAT(text, Catch::Contains("a.h5") && Catch::Contains("run 2") && Catch::Contains("checksum"));
}

// Written by the programs that had these versions; the hashes are those of the numbers of the figures that the last of them drew.
// What letters look like differs with the fonts' library: the drawing is held against that of the run saved anew.
TEST_CASE("Figures of traces of versions 1 to 7 keep their bytes") {
  const test::TemporaryFolder folder;
  const int version = GENERATE(range(1, 9));
  const fs::path name = "trace-v" + std::to_string(version) + ".h5";
  const fs::path old = fs::path(test::in_source("tests/core/golden")) / name, renewed = folder / name;
  save_trace(renewed, load_trace(old, 0), false);
  const std::map<std::string, std::uint64_t> hashes = {
      {"kvpop-fig6", 0xa196a0134713871d},
      {"kvpop-fig7", version < 3 ? 0x1d982945246421c6 : 0x7cb3cb5788b8ee76},
      {"cache-timeline", 0x338552fda8bb340f}};
  for (const auto& [preset, hash] : hashes) {
    CAPTURE(preset, version);
    const auto draw = [&](const fs::path& trace, const char* figure) {
      const auto result = test::kvscope_run({"figure", "--preset", preset, trace.string(), "--run", "0", "--overwrite",
                                             "-o", (folder / figure).string()});
      INFO(result.err);
      REQUIRE(result.exit_code == 0);
      return test::read_text(folder / figure);
    };
    CHECK(draw(old, "old.svg") == draw(renewed, "new.svg"));
    CHECK(fnv1a64(test::read_text(folder / "old.figure.csv")) == hash);
  }
}
