// What is no trace, in the place of one, for every command that reads traces: one line, exit code 2, and no waiting.

#include <hdf5.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>

#include "engine/core/trace/run_block.h"
#include "engine/core/trace/trace_file.h"
#include "tests/app/process.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using kvscope::test::TemporaryFolder;

namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// A good trace, changed through HDF5.
void write_changed(const fs::path& path, const std::function<void(hid_t file)>& change) {
  save_trace(path, test::random_run(1), true);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  REQUIRE(file >= 0);
  change(file);
  H5Fclose(file);
}

void set_version(hid_t file, std::int64_t version) {
  const hid_t root = H5Gopen2(file, "/", H5P_DEFAULT), attribute = H5Aopen(root, "version", H5P_DEFAULT);
  REQUIRE(H5Awrite(attribute, H5T_STD_I64LE, &version) >= 0);
  H5Aclose(attribute);
  H5Gclose(root);
}

/// A complete trace whose rows, or pieces, are shorter than its run, with a checksum that fits.
void write_short(const fs::path& path, trace::Dataset lengths) {
  const RunRecord run = test::random_run(1);
  trace::RunBlock block = trace::encode_run(run, trace::Extents{}, 0);
  std::vector<std::int32_t> shorter(block.values<std::int32_t>(lengths).size(), 0);
  block.set<std::int32_t>(lengths, shorter);
  const std::uint64_t checksum = trace::checksum(block, run.model);
  write_changed(path, [&](hid_t file) {
    const auto put = [&](trace::Dataset id, hid_t type, const void* values) {
      const hid_t dataset = H5Dopen2(file, trace::schema(id).path, H5P_DEFAULT);
      REQUIRE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
      H5Dclose(dataset);
    };
    put(lengths, H5T_STD_I32LE, shorter.data());
    put(trace::Dataset::checksum, H5T_STD_U64LE, &checksum);
  });
}

void replace_dataset(hid_t file, const char* name, std::vector<hsize_t> dims) {
  REQUIRE(H5Ldelete(file, name, H5P_DEFAULT) >= 0);
  const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  const hid_t dataset = H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  REQUIRE(dataset >= 0);
  H5Dclose(dataset);
  H5Sclose(space);
}

struct Bad {
  const char* name;
  const char* expected;  // part of the line
  void (*write)(const fs::path& path);
};

const Bad kBad[] = {
    {"missing.h5", "missing.h5", [](const fs::path&) {}},
    {"empty.h5", "an empty file", [](const fs::path& path) { write_text(path, ""); }},
    {"text.h5", "not an HDF5 file", [](const fs::path& path) { write_text(path, "prompt,score\n1,2\n"); }},
    {"lfs.h5", "LFS",
     [](const fs::path& path) {
       write_text(path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
     }},
    {"folder.h5", "folder.h5", [](const fs::path& path) { fs::create_directory(path); }},
    {"fifo.h5", "fifo.h5", [](const fs::path& path) { REQUIRE(::mkfifo(path.c_str(), 0600) == 0); }},
    {"device.h5", "device.h5", [](const fs::path& path) { fs::create_symlink("/dev/zero", path); }},
    {"foreign.h5", "another program",
     [](const fs::path& path) { H5Fclose(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)); }},
    {"newer.h5", "a newer KVScope",
     [](const fs::path& path) { write_changed(path, [](hid_t file) { set_version(file, trace::kVersion + 1); }); }},
    {"version.h5", "version",
     [](const fs::path& path) { write_changed(path, [](hid_t file) { set_version(file, -7); }); }},
    {"shape.h5", "/heads/evict_at",
     [](const fs::path& path) {
       write_changed(path, [](hid_t file) { replace_dataset(file, "heads/evict_at", {2, 2, 2}); });
     }},
    {"rank.h5", "/tokens/id",
     [](const fs::path& path) {
       write_changed(path, [](hid_t file) { replace_dataset(file, "tokens/id", {180, 1}); });
     }},
    {"bomb.h5", "/runs/",
     [](const fs::path& path) {
       write_changed(path, [](hid_t file) { replace_dataset(file, "runs/token_span", {hsize_t{1} << 40, 2}); });
     }},
    {"short_rows.h5", "short_rows.h5",
     [](const fs::path& path) { write_short(path, trace::Dataset::evict_at_length); }},
    {"short_pieces.h5", "short_pieces.h5", [](const fs::path& path) { write_short(path, trace::Dataset::n_pieces); }},
    {"cut.h5", "cut.h5: the file is cut off: ",
     [](const fs::path& path) {
       save_trace(path, test::random_run(1), true);
       fs::resize_file(path, fs::file_size(path) / 2);
     }},
};

std::vector<std::vector<std::string>> commands(const std::string& trace, const TemporaryFolder& folder) {
  const std::string model = test::sample_model().string();
  return {
      {"inspect", trace},
      {"export", trace, "-o", (folder / "out.csv").string()},
      {"compare", trace, (folder / "good.h5").string(), "--quiet"},
      {"compare", (folder / "good.h5").string(), trace, "--quiet"},
      {"compare", trace, "--policy", "full", "--quiet"},
      {"merge", trace, "-o", (folder / "merged.h5").string(), "--quiet"},
      {"heads", trace},
      {"what-if", trace, "full"},
      {"figure", "--preset", "kvpop-fig6", trace, "-o", (folder / "out.svg").string()},
      {"capture", model, (folder / "p.txt").string(), "-o", trace, "--resume", "--quiet", "--engine", "false"},
  };
}

}  // namespace

TEST_CASE("Every command answers a bad trace with one line and exit code 2, and none waits") {
  const Bad& bad = kBad[GENERATE(range(0, static_cast<int>(std::size(kBad))))];
  const TemporaryFolder folder;
  save_trace(folder / "good.h5", test::random_run(1), false);
  write_text(folder / "p.txt", "one prompt\n");
  bad.write(folder / bad.name);
  const std::string trace = (folder / bad.name).string();
  for (const auto& words : commands(trace, folder)) {
    if (words[0] == "capture" && std::string(bad.name) == "missing.h5") continue;  // there it begins
    if (words[0] == "inspect" && std::string(bad.name) == "folder.h5") continue;   // may be a model's
    // There the model's folder is looked for before a run is read.
    if (words[0] == "compare" && words[2] == "--policy" && std::string(bad.name).starts_with("short_")) continue;
    std::vector<std::string> argv = {test::kvscope().string()};
    argv.insert(argv.end(), words.begin(), words.end());
    const auto result = test::run({.argv = argv, .timeout = 20});
    CAPTURE(words, result.err, result.exit_code);
    CHECK(result.exit_code == 2);
    CHECK(result.err.starts_with("error: "));
    CHECK(test::count_lines(result.err) == 1);
    CHECK(result.err.find(bad.expected) != std::string::npos);
  }
  CHECK_FALSE(fs::exists(folder / "out.csv"));
  CHECK_FALSE(fs::exists(folder / "out.svg"));
  CHECK_FALSE(fs::exists(folder / "merged.h5"));
}
