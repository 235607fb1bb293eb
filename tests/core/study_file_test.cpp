// Studies in files: what is written comes back to the bit, the same table gives the same bytes, and what was damaged is one
// line of error.

#include "engine/core/trace/study_file.h"

#include <hdf5.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "engine/core/trace/trace_file.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;

const fs::path kChild = in_build("tests/core/trace_kill_writer");
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Three points, one of whose texts is empty, numbers that decimal text would lose, an array without values.
StudyTable three_points() {
  return {.kind = "sweep",
          .request = R"({"model": "m", "policies": ["full"]})",
          .facts = "{}",
          .columns = {{.name = "policy",
                       .units = "",
                       .meaning = "as written",
                       .is_text = true,
                       .texts = {"full", "", "kvpop:keep=25%,window=64 \xc3\xa4"}},
                      {.name = "nll", .units = "nats/token", .meaning = "mean", .numbers = {0.1, kNaN, -0.0}},
                      {.name = "a", .units = "", .meaning = "", .numbers = {1e-310, INFINITY, 1.0 / 3}}},
          .arrays = {{.name = "z_density",
                      .units = "",
                      .meaning = "by head",
                      .axes = {"point", "layer"},
                      .shape = {3, 2},
                      .values = {0, kNaN, 2, 3, 4, 5}},
                     {.name = "b", .units = "s", .meaning = "", .axes = {"text"}, .shape = {0}, .values = {}}}};
}

/// What reading says, both guarded and not; "" if it is read.
std::string refusal(const fs::path& path) {
  std::string lines[2];
  for (const bool guarded : {false, true}) {
    try {
      read_study(guarded ? kChild : fs::path(), path);
    } catch (const Error& error) {
      lines[guarded] = error.what();
      CHECK(error.code() == ExitCode::bad_input);
    }
  }
  CHECK(lines[0] == lines[1]);
  return lines[0];
}

void put(const fs::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace

TEST_CASE("study file: what is written comes back equal to the bit, through the child and without it",
          "[core][study]") {
  const ScratchFolder folder;
  const StudyTable table = three_points();
  write_study(folder / "s.h5", table, false);
  CHECK(same_study(read_study("", folder / "s.h5"), table));
  CHECK(same_study(read_study(kChild, folder / "s.h5"), table));
  StudyTable none = table;  // of no points at all
  for (StudyColumn& column : none.columns) column.numbers.clear(), column.texts.clear();
  none.arrays.clear();
  write_study(folder / "none.h5", none, false);
  CHECK(same_study(read_study(kChild, folder / "none.h5"), none));
  StudyTable wide = table;  // more names than HDF5 keeps in a group's head, in an order that is not the alphabet's
  for (int i = 0; i < 300; ++i) {
    wide.columns.push_back(
        {.name = "c" + std::to_string(i * 7919 % 300), .units = "", .meaning = "", .numbers = {1. * i, 2, 3}});
  }
  write_study(folder / "wide.h5", wide, false);
  CHECK(same_study(read_study(kChild, folder / "wide.h5"), wide));
}

TEST_CASE("study file: the same table gives the same bytes, and is replaced only when that is asked for",
          "[core][study]") {
  const ScratchFolder folder;
  const auto path = folder / "s.h5";
  write_study(path, three_points(), false);
  const std::string bytes = read_file(path, 1 << 24);
  CHECK(bytes == study_bytes(three_points(), "s.h5"));
  CHECK_THROWS_AS(write_study(path, three_points(), false), Error);
  const fs::path inputs[] = {path};
  CHECK_THROWS_AS(write_study(path, three_points(), true, inputs), Error);
  StudyTable other = three_points();
  other.columns[1].numbers[0] = 0.2;
  write_study(path, other, true);
  CHECK(read_file(path, 1 << 24) != bytes);
  CHECK(same_study(read_study(kChild, path), other));
}

TEST_CASE("study file: a table that does not fit together, or the format, writes nothing", "[core][study]") {
  const ScratchFolder folder;
  const auto refused = [&](const StudyTable& table) {
    CHECK_THROWS_AS(write_study(folder / "s.h5", table, false), Error);
    CHECK(fs::is_empty(folder.path()));
  };
  StudyTable table = three_points();
  table.columns[1].numbers.pop_back();
  refused(table);
  table = three_points();
  table.columns[0].texts[1] = std::string("a\0b", 3);
  refused(table);
  table = three_points();
  table.columns[1].meaning.assign(70000, 'x');  // longer than an attribute may be
  refused(table);
  table = three_points();
  table.columns[0].texts[1].assign(100 << 20, 'x');  // of fixed length: three of them are 300 MiB
  refused(table);
}

TEST_CASE("study file: one that was cut at any byte is one line of error", "[core][study]") {
  const ScratchFolder folder(true);
  const std::string bytes = study_bytes(three_points(), "s.h5");
  const auto path = folder / "cut.h5";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    put(path, std::string_view(bytes).substr(0, size));
    std::string line;
    try {
      // HDF5 refuses a file that is shorter than it says before it looks into it: the child is for a sample of them.
      read_study(size % 97 == 0 ? kChild : fs::path(), path);
    } catch (const Error& error) {
      line = error.what();
    }
    REQUIRE(line.find("cut.h5") != std::string::npos);
    REQUIRE(line.find('\n') == std::string::npos);
  }
}

TEST_CASE("study file: with flipped bits it is the study that was written or one line of error", "[core][study]") {
  const ScratchFolder folder(true);
  const StudyTable table = three_points();
  const std::string bytes = study_bytes(table, "s.h5");
  const auto path = folder / "flipped.h5";
  Random random(16);
  int n_refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = bytes;
    const auto at = random.next() % bytes.size();
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.next() % 8));
    put(path, damaged);
    CAPTURE(at);
    bool is_same = true;  // as where the flip is in what HDF5 leaves unused
    try {
      is_same = same_study(read_study(kChild, path), table);
    } catch (const Error& error) {
      const std::string line = error.what();
      REQUIRE(line.find("flipped.h5") != std::string::npos);
      REQUIRE(line.find('\n') == std::string::npos);
      ++n_refused;
    }
    REQUIRE(is_same);
  }
  CHECK(n_refused > 40);  // a fair part of the bytes has a meaning
}

TEST_CASE("study file: a value that was changed afterwards is seen by its checksum", "[core][study]") {
  const ScratchFolder folder;
  const auto path = folder / "s.h5";
  write_study(path, three_points(), false);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(file, "point/a", H5P_DEFAULT);
  const double values[] = {1, 2, 3};
  REQUIRE(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  H5Dclose(dataset);
  H5Fclose(file);
  CHECK(refusal(path).find("checksum: its values do not match their checksum") != std::string::npos);
}

TEST_CASE("study file: a filter of a plug-in is refused by its name, as in a trace", "[core][study]") {
  const ScratchFolder folder;
  write_study(folder / "s.h5", three_points(), false);
  const hid_t file = H5Fopen((folder / "s.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  const hsize_t n = 3;
  H5Pset_chunk(creation, 1, &n);
  const auto [number, name] =
      GENERATE(std::pair(32000, "lzf"), std::pair(32015, "zstd"), std::pair(31999, "filter 31999"));
  REQUIRE(H5Pset_filter(creation, number, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
  REQUIRE(H5Ldelete(file, "point/a", H5P_DEFAULT) >= 0);
  const hid_t space = H5Screate_simple(1, &n, nullptr);
  H5Dclose(H5Dcreate2(file, "point/a", H5T_IEEE_F64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
  H5Fclose(file);
  const std::string line = refusal(folder / "s.h5");
  CAPTURE(line);
  CHECK(line.find(name) != std::string::npos);
  CHECK(line.find("h5repack -f GZIP=4") != std::string::npos);
}

TEST_CASE("study file: what is something else is said to be that", "[core][study]") {
  const ScratchFolder folder;
  save_trace(folder / "trace.h5", random_run(1), false);
  CHECK(refusal(folder / "trace.h5").find("trace.h5: a KVScope trace; expected a whole KVScope study") !=
        std::string::npos);
  CHECK_FALSE(read_study_if_one(kChild, folder / "trace.h5"));
  H5Fclose(H5Fcreate((folder / "foreign.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  CHECK(refusal(folder / "foreign.h5").find("not a KVScope study") != std::string::npos);
  put(folder / "a.txt", "policy,nll\n");
  CHECK(refusal(folder / "a.txt").find("not an HDF5 file") != std::string::npos);
  CHECK_FALSE(read_study_if_one(kChild, folder / "a.txt"));
  CHECK_FALSE(refusal(folder / "none.h5").empty());
  CHECK_FALSE(refusal(folder.path()).empty());
}

TEST_CASE("study file: a link out of the file is not followed, and lengths beyond the limit are not believed",
          "[core][study]") {
  const ScratchFolder folder;
  write_study(folder / "s.h5", three_points(), false);
  const hid_t file = H5Fopen((folder / "s.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  SECTION("an external link") {
    write_study(folder / "other.h5", three_points(), false);
    H5Lcreate_external("other.h5", "/point/a", file, "/point/stolen", H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    CHECK(refusal(folder / "s.h5").find("a link to another place") != std::string::npos);
  }
  SECTION("a dataset of 2^50 values that were never written") {
    const hsize_t n = hsize_t{1} << 50, chunk = 1024;
    const hid_t space = H5Screate_simple(1, &n, nullptr), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 1, &chunk);
    const hid_t dataset = H5Dcreate2(file, "/point/huge", H5T_IEEE_F64LE, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    REQUIRE(dataset >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(creation);
    const hid_t other = H5Dopen2(file, "/point/huge", H5P_DEFAULT), text = H5Tcopy(H5T_C_S1),
                one = H5Screate(H5S_SCALAR);
    for (const char* name : {"units", "meaning"}) {
      H5Aclose(H5Acreate2(other, name, text, one, H5P_DEFAULT, H5P_DEFAULT));
    }
    H5Dclose(other);
    H5Fclose(file);
    CHECK(refusal(folder / "s.h5").find("more than 256 MiB") != std::string::npos);
  }
}

TEST_CASE("study file: h5py reads columns in their order, with units, texts and NaN", "[core][study]") {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  const std::string python = named ? named : "python3";
  if (!succeeds({python, "-c", "import h5py, numpy"}, true)) return skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const ScratchFolder folder;
  write_study(folder / "s.h5", three_points(), false);
  const char* script = R"(
import h5py, json, math, sys
with h5py.File(sys.argv[1], "r") as f:
    assert f.attrs["format"] == b"kvscope-study" and f.attrs["version"] == 1 and f.attrs["kind"] == b"sweep"
    assert json.loads(f["request"][()])["policies"] == ["full"]
    assert list(f["point"]) == ["policy", "nll", "a"] and list(f["array"]) == ["z_density", "b"]
    assert [t.decode() for t in f["point/policy"][:]] == ["full", "", "kvpop:keep=25%,window=64 \u00e4"]
    nll = f["point/nll"][:]
    assert nll[0] == 0.1 and math.isnan(nll[1]) and f["point/nll"].attrs["units"] == b"nats/token"
    assert f["array/z_density"].shape == (3, 2) and list(f["array/z_density"].attrs["axes"]) == [b"point", b"layer"]
)";
  CHECK(succeeds({python, "-c", script, folder / "s.h5"}));
}

TEST_CASE(
    "an array of float32 is one in the file, comes back to the bit through the child, and is refused once it is changed") {
  const ScratchFolder folder;
  StudyTable table{.kind = std::string(kTrainingStudy), .request = "{}", .facts = "{}"};
  table.columns = {{.name = "step", .units = "", .meaning = "", .numbers = {1}}};
  table.arrays = {
      {.name = "score",
       .units = "",
       .meaning = "",
       .axes = {"probe", "token"},
       .shape = {2, 3},
       .values = {0.25, 0.1F, kNaN, -3, 1e-30F, 7},
       .is_float32 = true},
      {.name = "other", .units = "", .meaning = "", .axes = {"token"}, .shape = {3}, .values = {0.1, 2, 3}}};
  const fs::path file = folder / "a.h5";
  write_study(file, table, false);
  for (const fs::path& program : {fs::path(), kChild}) {
    const StudyTable again = read_study(program, file);
    CHECK(same_study(again, table));
    CHECK(again.arrays[0].is_float32);
    CHECK_FALSE(again.arrays[1].is_float32);
  }
  const hid_t opened = H5Fopen(file.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  const hid_t dataset = H5Dopen2(opened, "array/score", H5P_DEFAULT), type = H5Dget_type(dataset);
  CHECK(H5Tequal(type, H5T_IEEE_F32LE) > 0);
  const float changed[6] = {};
  CHECK(H5Dwrite(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, changed) >= 0);
  H5Tclose(type), H5Dclose(dataset), H5Fclose(opened);
  CHECK_THROWS_WITH(read_study("", file), Catch::Contains("checksum"));
}
