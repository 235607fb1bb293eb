// Files that are not traces, or no longer: one line of error, never a crash of the reader, never a wrong run.

#include <hdf5.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/support/random.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_live.h"
#include "engine/core/trace/trace_merge.h"
#include "engine/core/trace/trace_model.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;

const std::filesystem::path kChild = in_build("tests/core/trace_kill_writer");

std::string bytes_of(const std::filesystem::path& path) { return read_file(path, std::size_t{1} << 30); }
void put(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// The error of loading run 0, "" if it loads. The guarded reader must say the same.
std::string error_of(const std::filesystem::path& path) {
  std::string direct, guarded;
  try {
    load_trace(path);
  } catch (const Error& error) {
    direct = error.what();
    CHECK(error.code() == ExitCode::bad_input);
    CHECK(direct.find(path.filename().string()) != std::string::npos);
    CHECK(direct.find('\n') == std::string::npos);
  }
  try {
    TraceReader(kChild, path).load(0);
  } catch (const Error& error) {
    guarded = error.what();
  }
  CHECK(direct == guarded);
  return direct;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string partial_trace(const ScratchFolder& folder) {
  TraceWriter writer(folder / "partial.h5", formula_run(0).model, {.max_runs = 2, .max_positions = 60});
  writer.add(formula_run(0));
  return bytes_of(folder / "partial.h5");
}

std::string whole_trace(const ScratchFolder& folder) {
  save_trace(folder / "whole.h5", formula_run(0), true);
  return bytes_of(folder / "whole.h5");
}

/// A trace, and HDF5's own functions to damage it with.
struct Damaged {
  ScratchFolder folder;
  std::filesystem::path path = folder / "damaged.h5";
  hid_t file = -1;
  Damaged() {
    put(path, whole_trace(folder));
    file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    REQUIRE(file >= 0);
  }
  std::string error() {
    H5Fclose(file);
    return error_of(path);
  }
  void remove(const char* name) { REQUIRE(H5Ldelete(file, name, H5P_DEFAULT) >= 0); }
  /// Puts a dataset in the place of `name`.
  void replace(const char* name, hid_t type, std::vector<hsize_t> dims, hid_t creation = H5P_DEFAULT) {
    remove(name);
    const hid_t space = H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
    const hid_t dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    REQUIRE(dataset >= 0);
    H5Dclose(dataset);
    H5Sclose(space);
  }
  template <typename T>
  void set(const char* name, hid_t type, std::size_t index, T value) {
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    REQUIRE(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    values.at(index) = value;
    REQUIRE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
  }
  void set_attribute(const char* object, const char* name, std::int64_t value) {
    const hid_t opened = H5Oopen(file, object, H5P_DEFAULT);
    const hid_t attribute = H5Aopen(opened, name, H5P_DEFAULT);
    REQUIRE(attribute >= 0);
    REQUIRE(H5Awrite(attribute, H5T_STD_I64LE, &value) >= 0);
    H5Aclose(attribute);
    H5Oclose(opened);
  }
  std::vector<hsize_t> dims(const char* name) {
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = H5Dget_space(dataset);
    std::vector<hsize_t> dims(static_cast<std::size_t>(H5Sget_simple_extent_ndims(space)));
    H5Sget_simple_extent_dims(space, dims.data(), nullptr);
    H5Sclose(space);
    H5Dclose(dataset);
    return dims;
  }
};

}  // namespace

TEST_CASE("trace damage: a file cut at any byte is one line of error, and no length hangs or crashes the reader",
          "[core][trace][damage]") {
  // One process for all lengths: starting one for each takes minutes, and a crash in it is seen all the same.
  const ScratchFolder folder(true);
  const auto path = folder / "cut.h5";
  const std::string kind = GENERATE("whole", "partial", "merged");
  CAPTURE(kind);
  if (kind == "merged") {
    const fs::path shard = folder / "shard.h5";
    {
      TraceWriter writer(shard, formula_run(0).model,
                         {.max_runs = 1, .max_positions = 60, .capture = {.n_prompts = 1}});
      RunRecord run = formula_run(0);
      run.prompt_index = 0;
      writer.add(run);
    }
    merge_traces({&shard, 1}, path, {});
  } else {
    put(path, kind == "whole" ? whole_trace(folder) : partial_trace(folder));
  }
  REQUIRE(error_of(path) == "");
  REQUIRE(fs::file_size(path) > 20000);
  CHECK(succeeds({kChild.string(), "cut", path.string()}));
  CHECK(fs::file_size(path) == 0);
}

TEST_CASE("trace damage: of a file that is cut off is said how much of it is there, in no words of HDF5",
          "[core][trace][damage]") {
  const ScratchFolder folder;
  const std::string good = whole_trace(folder), all = std::to_string(good.size());
  const auto path = folder / "cut.h5";
  for (const std::size_t size : {std::size_t{8}, std::size_t{20}, std::size_t{47}, std::size_t{48}, good.size() - 1}) {
    put(path, std::string_view(good).substr(0, size));
    CHECK(error_of(path) == path.string() + ": the file is cut off: " + std::to_string(size) +
                                (size < 48 ? "" : " of " + all) +
                                " bytes; expected a whole KVScope trace; hint: copy it again, or create it again");
  }
}

// "bad object header version number", "wrong B-tree signature": of no use to who has the file.
TEST_CASE("trace damage: of a file that is damaged is said where and what to do, in no words of HDF5",
          "[core][trace][damage]") {
  const ScratchFolder folder;
  const std::string good = whole_trace(folder);
  const auto path = folder / "damaged.h5";
  int told = 0;
  for (std::size_t at = 96; at + 64 < good.size(); at += 997) {
    std::string bytes = good;
    std::memset(&bytes[at], 0xa5, 64);
    put(path, bytes);
    const std::string error = error_of(path);
    CAPTURE(at, error);
    for (const char* word :
         {"B-tree", "header", "heap", "signature", "can't", "unable", "cache", "filter", "H5", "addr"})
      CHECK_FALSE(contains(error, std::string(" ") + word));
    const bool damaged = contains(error, ": the file is damaged; ");
    told += damaged;
    CHECK(damaged == contains(error, "expected a whole KVScope trace; hint: copy it again, or create it again"));
  }
  CHECK(told >= 5);
}

TEST_CASE("trace damage: flipped bytes are an error or change nothing, and never take the reader down",
          "[core][trace][damage]") {
  const ScratchFolder folder;
  const auto path = folder / "flipped.h5";
  const bool finished = GENERATE(true, false);
  CAPTURE(finished);
  const std::string good = finished ? whole_trace(folder) : partial_trace(folder);
  const RunRecord run = formula_run(0);
  Random random(finished ? 1 : 2);
  int errors = 0;
  for (int i = 0; i < 200; ++i) {
    std::string bytes = good;
    // A capacity of a live file is mostly holes; its structure and first rows stand in the first 64 KiB.
    const std::size_t range = std::min<std::size_t>(bytes.size(), 65536);
    for (std::uint64_t n = random.below(3) + 1; n > 0; --n)
      bytes[random.below(range)] = static_cast<char>(random.below(256));
    put(path, bytes);
    CAPTURE(i);
    try {
      const RunRecord loaded = TraceReader(kChild, path, {.work = std::chrono::seconds(20)}).load(0);
      REQUIRE(run_difference(loaded, run) == "");
    } catch (const Error& error) {
      ++errors;
      CHECK(contains(error.what(), "flipped.h5"));
    }
  }
  CHECK(errors >= 20);  // most of a live file is room that is not used yet: there flips change nothing
}

TEST_CASE("trace damage: files of other programs are named for what they are", "[core][trace][damage]") {
  const ScratchFolder folder;
  const auto path = folder / "foreign.h5";
  SECTION("empty") {
    put(path, "");
    CHECK(contains(error_of(path), "empty"));
  }
  SECTION("picture") {
    put(path, "\x89PNG\r\n\x1a\n and so on");
    CHECK(contains(error_of(path), "HDF5"));
  }
  SECTION("text") {
    put(path, "prompt,score\n1,2\n");
    CHECK(contains(error_of(path), "HDF5"));
  }
  SECTION("a Git LFS pointer") {
    put(path, "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n");
    CHECK(contains(error_of(path), "LFS"));
  }
  SECTION("an HDF5 file of another program") {
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    CHECK(contains(error_of(path), "another program"));
  }
  SECTION("missing") { CHECK(contains(error_of(path), "foreign.h5")); }
  SECTION("a folder") {
    std::filesystem::create_directory(path);
    CHECK(contains(error_of(path), "foreign.h5"));
  }
}

TEST_CASE(
    "trace damage: a trace after a user block is refused with the command that takes the block away, and then opens",
    "[core][trace][damage]") {
  const ScratchFolder folder;
  const std::string bytes = whole_trace(folder);
  const std::size_t size = GENERATE(std::size_t{512}, std::size_t{4096});
  put(folder / "block.h5", std::string(size, ' ') + bytes);
  const std::string error = error_of(folder / "block.h5");
  CAPTURE(error);
  CHECK(contains(error, "a user block of " + std::to_string(size) + " bytes"));
  CHECK(contains(error, "tail -c +" + std::to_string(size + 1)));

  // Of a file that HDF5 itself began after a block, the addresses say so.
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  REQUIRE(H5Pset_userblock(creation, size) >= 0);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  REQUIRE(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0);
  const hid_t from = H5Fopen((folder / "whole.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t to = H5Fcreate((folder / "begun.h5").c_str(), H5F_ACC_TRUNC, creation, access);
  const hid_t root = H5Gopen2(from, "/", H5P_DEFAULT);
  H5G_info_t info;
  REQUIRE(H5Gget_info(root, &info) >= 0);
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    char name[128];
    REQUIRE(H5Lget_name_by_idx(root, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT) >= 0);
    REQUIRE(H5Ocopy(from, name, to, name, H5P_DEFAULT, H5P_DEFAULT) >= 0);
  }
  H5Gclose(root), H5Fclose(from), H5Fclose(to);
  std::ifstream in(folder / "begun.h5", std::ios::binary);
  const std::string begun(std::istreambuf_iterator<char>(in), {});
  put(folder / "taken.h5", begun.substr(size));
  // The attributes of "/" were not copied: that is as far as it must come.
  const std::string then = error_of(folder / "taken.h5");
  CAPTURE(then);
  CHECK(contains(then, "attribute format"));
  CHECK(contains(error_of(folder / "begun.h5"), "a user block of"));
}

TEST_CASE("trace damage: a newer version says that it is newer", "[core][trace][damage]") {
  Damaged damaged;
  damaged.set_attribute("/", "version", trace::kVersion + 1);
  CHECK(contains(damaged.error(), "newer"));
}

TEST_CASE("trace damage: each dataset that is missing is named", "[core][trace][damage]") {
  const auto* name = GENERATE("committed", "model", "runs/status", "runs/checksum", "runs/token_span", "tokens/id",
                              "heads/evict_at", "heads/score", "contests/evicted", "contests", "runs/recall", "reads",
                              "reads/page", "reads/page_span", "runs/changes_span");
  Damaged damaged;
  damaged.remove(name);
  const std::string error = damaged.error();
  CAPTURE(error);
  CHECK(contains(error, std::string("/") + name));
}

TEST_CASE("trace damage: each dataset of another shape or type is named", "[core][trace][damage]") {
  Damaged damaged;
  const auto* name = GENERATE("runs/seed", "tokens/logprob", "heads/evict_at", "heads/future_mass", "contests/layer",
                              "runs/density", "runs/mass_recall", "reads/layer", "reads/page_span");
  const int kind = GENERATE(0, 1, 2);
  auto dims = damaged.dims(name);
  if (kind == 0) dims.back() += 1;
  if (kind == 1) dims.push_back(1);
  damaged.replace(name, kind == 2 ? H5T_IEEE_F64BE : H5T_STD_I32LE, dims);
  const std::string error = damaged.error();
  CAPTURE(name, kind, error);
  CHECK(contains(error, std::string("/") + name));
}

TEST_CASE("trace damage: committed may not be more than there are runs, nor less than none", "[core][trace][damage]") {
  Damaged damaged;
  damaged.set<std::int64_t>("committed", H5T_STD_I64LE, 0, GENERATE(-1, 0, 2, INT64_MAX));
  CHECK(contains(damaged.error(), "committed"));
}

TEST_CASE("trace damage: spans outside the file and values outside the model are errors", "[core][trace][damage]") {
  Damaged damaged;
  SECTION("a span past the end") {
    damaged.set<std::int64_t>("runs/token_span", H5T_STD_I64LE, 1, 1 << 20);
    CHECK(contains(damaged.error(), "token_span"));
  }
  SECTION("a negative span") {
    damaged.set<std::int64_t>("runs/contest_span", H5T_STD_I64LE, 0, -4);
    CHECK(contains(damaged.error(), "contest_span"));
  }
  SECTION("a span of pages past the end") {
    damaged.set<std::int64_t>("runs/read_page_span", H5T_STD_I64LE, 1, 1 << 20);
    CHECK(contains(damaged.error(), "read_page_span"));
  }
  SECTION("a changed page") {
    damaged.set<std::int32_t>("reads/page", H5T_STD_I32LE, 5, 1);
    CHECK(contains(damaged.error(), "checksum"));
  }
  SECTION("a span that ends before it begins") {
    damaged.set<std::int64_t>("runs/policy_span", H5T_STD_I64LE, 1, 0);
    CHECK(contains(damaged.error(), "run 0"));
  }
  SECTION("a changed score") {
    damaged.set<float>("heads/score", H5T_IEEE_F32LE, 5, 1e30f);
    CHECK(contains(damaged.error(), "checksum"));
  }
  SECTION("a model of no layers") {
    damaged.set_attribute("/model", "n_layers", 0);
    CHECK(contains(damaged.error(), "n_layers"));
  }
  SECTION("a model of more layers than the data") {
    damaged.set_attribute("/model", "n_layers", 4);
    CHECK(contains(damaged.error(), "along axis"));
  }
}

TEST_CASE("trace damage: data are never taken from another file or object", "[core][trace][damage]") {
  Damaged damaged;
  const auto canary = damaged.folder / "canary";
  put(canary, std::string(4096, '\1'));
  const auto dims = damaged.dims("tokens/id");
  SECTION("external storage") {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(creation, canary.c_str(), 0, dims[0] * 4);
    damaged.replace("tokens/id", H5T_STD_I32LE, dims, creation);
    H5Pclose(creation);
    CHECK(contains(damaged.error(), "another file"));
  }
  SECTION("virtual dataset") {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(1, dims.data(), nullptr);
    REQUIRE(H5Pset_virtual(creation, space, (damaged.folder / "whole.h5").c_str(), "tokens/id", space) >= 0);
    damaged.replace("tokens/id", H5T_STD_I32LE, dims, creation);
    CHECK(contains(damaged.error(), "storage layout"));
  }
  SECTION("external link") {
    damaged.remove("tokens/id");
    REQUIRE(H5Lcreate_external((damaged.folder / "whole.h5").c_str(), "tokens/id", damaged.file, "tokens/id",
                               H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(contains(damaged.error(), "link"));
  }
  SECTION("soft link to data that would fit") {
    damaged.remove("heads/future_rms");
    REQUIRE(H5Lcreate_soft("/heads/evict_at", damaged.file, "heads/future_rms", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(contains(damaged.error(), "link"));
  }
  SECTION("soft link in a group's place") {
    REQUIRE(H5Lmove(damaged.file, "tokens", damaged.file, "moved", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    REQUIRE(H5Lcreate_soft("/moved", damaged.file, "tokens", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    CHECK(contains(damaged.error(), "/tokens"));
  }
  SECTION("a group in a dataset's place") {
    damaged.remove("runs/seed");
    H5Gclose(H5Gcreate2(damaged.file, "runs/seed", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    CHECK(contains(damaged.error(), "not a dataset"));
  }
  SECTION("a filter that traces do not use") {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = dims[0];
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_nbit(creation);
    damaged.replace("tokens/id", H5T_STD_I32LE, dims, creation);
    CHECK(contains(damaged.error(), "filter"));
  }
  SECTION("a filter of a plug-in has its name, and the way to a copy without it") {
    const auto [number, name] =
        GENERATE(std::pair(32000, "lzf"), std::pair(32015, "zstd"), std::pair(32001, "blosc"), std::pair(307, "bzip2"),
                 std::pair(32004, "lz4"), std::pair(31999, "filter 31999"));
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = dims[0];
    H5Pset_chunk(creation, 1, &chunk);
    REQUIRE(H5Pset_filter(creation, number, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
    damaged.replace("tokens/id", H5T_STD_I32LE, dims, creation);
    const std::string error = damaged.error();
    CAPTURE(error);
    CHECK(contains(error, name));
    CHECK(contains(error, std::to_string(number)));
    CHECK(contains(error, "h5repack -f GZIP=4"));
  }
  SECTION("a bomb: a kilobyte that says it is a terabyte") {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 1024;
    H5Pset_chunk(creation, 1, &chunk);
    H5Pset_deflate(creation, 9);
    damaged.replace("runs/text", H5T_STD_U8LE, {hsize_t{1} << 40}, creation);
    CHECK(contains(damaged.error(), "times the file"));
  }
  SECTION("a chunk larger than a trace has") {
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = hsize_t{1} << 30;
    H5Pset_chunk(creation, 1, &chunk);
    damaged.replace("runs/text", H5T_STD_U8LE, {chunk}, creation);
    CHECK(contains(damaged.error(), "chunks of"));
  }
}
