// Shards as one trace: nothing lost, nothing doubled, in order; virtual or copied, it reads as one capture would.

#include "engine/core/trace/trace_merge.h"

#include <hdf5.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/merge_notes.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_notes.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"
#include "tests/support/skip.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;

constexpr int kPrompts = 8;
const fs::path kChild = in_build("tests/core/trace_kill_writer");
const CaptureInfo kCapture{
    .n_prompts = kPrompts,
    .prompts_hash = "0123",
    .request = "--policy 'kvpop:budget=16,sinks=2,window=4' --max-tokens 4 --stop 'it'\\''s --x'"};

RunRecord run_of(int prompt) {
  RunRecord run = formula_run(40 + prompt);
  run.prompt_index = prompt;
  return run;
}

struct Shards {
  ScratchFolder folder;
  std::vector<fs::path> paths;
  /// Shard s of n: prompts s, s + n ...; `skip` is left out.
  explicit Shards(int n = 3, int skip = -1, bool finish_last = true) {
    for (int shard = 0; shard < n; ++shard) {
      CaptureInfo capture = kCapture;
      capture.shard = shard;
      capture.n_shards = n;
      std::vector<int> prompts;
      for (int i = shard; i < kPrompts; i += n)
        if (i != skip) prompts.push_back(i);
      write("s" + std::to_string(shard) + ".h5", prompts, capture, finish_last || shard + 1 < n);
    }
  }
  void write(const std::string& name, const std::vector<int>& prompts, const CaptureInfo& capture, bool finish = true,
             const ModelInfo& model = formula_run(0).model) {
    paths.push_back(folder / name);
    TraceWriter writer(paths.back(), model,
                       {.overwrite = true, .max_runs = kPrompts, .max_positions = 60, .capture = capture});
    for (const int prompt : prompts) {
      RunRecord run = run_of(prompt);
      run.model = model;
      writer.add(run);
    }
    if (finish) writer.finish();
  }
  fs::path merged() const { return folder / "merged.h5"; }
  MergeReport merge(MergeOptions options = {}) const { return merge_traces(paths, merged(), options); }
  std::string error(MergeOptions options = {}) const {
    try {
      merge(options);
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_input);
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return error.what();
    }
    return "";
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string error_of(const fs::path& path, int run = 0) {
  try {
    load_trace(path, run);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_input);
    return error.what();
  }
  return "";
}

void check_runs(const fs::path& path, const std::vector<int>& prompts) {
  const TraceInfo info = inspect_trace(path);
  REQUIRE(info.n_runs == static_cast<int>(prompts.size()));
  TraceReader guarded(kChild, path);
  for (int i = 0; i < info.n_runs; ++i) {
    CAPTURE(path.string(), i);
    CHECK(info.prompt_index[i] == prompts[i]);
    CHECK(run_difference(load_trace(path, i), run_of(prompts[i])) == "");
    CHECK(run_difference(guarded.load(i), run_of(prompts[i])) == "");
  }
}

const std::vector<int> kAll = {0, 1, 2, 3, 4, 5, 6, 7};

std::string python_with_h5py() {
  const char* named = std::getenv("KVSCOPE_PYTHON");
  const std::string python = named && *named ? named : "python3";
  return succeeds({python, "-c", "import h5py, numpy"}, true) ? python : "";
}

}  // namespace

TEST_CASE("trace merge: shards become one trace in the order of the prompts, virtual or copied",
          "[core][trace][merge]") {
  const int n = GENERATE(1, 3, 11);  // 11: three shards have no prompt
  const bool copy = GENERATE(false, true), partial = GENERATE(false, true);
  CAPTURE(n, copy, partial);
  const Shards shards(n, -1, !partial);
  const MergeReport report = shards.merge({.copy = copy, .program = kChild});
  CHECK(report.n_runs == kPrompts);
  CHECK(report.missing.empty());
  check_runs(shards.merged(), kAll);
  const TraceInfo info = inspect_trace(shards.merged()), guarded = TraceReader(kChild, shards.merged()).info();
  CHECK(info.status == (copy ? "complete" : "merged"));
  CHECK(info.shards.size() == static_cast<std::size_t>(copy ? 0 : n));
  CHECK(guarded.shards == info.shards);
  CHECK(guarded.prompt_index == info.prompt_index);
  CHECK(guarded.capture == kCapture);
}

TEST_CASE("trace merge: a copy has the bytes of a capture that was never sharded", "[core][trace][merge]") {
  Shards shards;
  shards.merge({.copy = true});
  const auto merged = read_file(shards.merged(), 1u << 30);
  shards.write("whole.h5", kAll, kCapture);
  CHECK(merged == read_file(shards.paths.back(), 1u << 30));
}

TEST_CASE("trace merge: the folder can move, the shards cannot stay behind", "[core][trace][merge]") {
  const Shards shards;
  shards.merge();
  const ScratchFolder elsewhere;
  fs::copy(shards.folder.path(), elsewhere / "moved");
  check_runs(elsewhere / "moved/merged.h5", kAll);
  fs::remove(elsewhere / "moved/s1.h5");
  CHECK(contains(error_of(elsewhere / "moved/merged.h5"), "its shard s1.h5 is not in the same folder"));
  check_runs(shards.merged(), kAll);
}

TEST_CASE("trace merge: stock h5py reads a merged trace, also after its folder has moved", "[core][trace][merge]") {
  const std::string python = python_with_h5py();
  if (python.empty()) return skip("no Python with h5py (set KVSCOPE_PYTHON)");
  const Shards shards(3, -1, GENERATE(false, true));
  shards.merge();
  const ScratchFolder elsewhere;
  fs::rename(shards.folder.path(), elsewhere / "moved");
  const std::string check = in_source("tests/core/check_trace.py");
  const std::string merged = (elsewhere / "moved/merged.h5").string();
  CHECK(succeeds({python, check, "--merged", merged, "40", std::to_string(kPrompts)}));
  CHECK_FALSE(succeeds({python, check, "--merged", merged, "41", std::to_string(kPrompts)}, true));
  fs::remove(elsewhere / "moved/s1.h5");  // what h5py then shows is not taken for data
  CHECK(succeeds({python, "-c",
                  "import h5py, numpy, sys; f = h5py.File(sys.argv[1]); a, b = f['runs/token_span'][1];"
                  "assert numpy.isnan(f['heads/score'][:, :, a:b]).all() and (f['tokens/id'][a:b] == -1).all()",
                  merged}));
}

TEST_CASE("trace merge: a missing prompt is an error, or left out if that is allowed", "[core][trace][merge]") {
  const Shards shards(3, 4);
  const bool copy = GENERATE(false, true);
  CHECK(contains(shards.error({.copy = copy}), "no shard has prompt 4"));
  CHECK_FALSE(fs::exists(shards.merged()));
  const MergeReport report = shards.merge({.copy = copy, .allow_missing = true});
  CHECK(report.missing == std::vector<std::int32_t>{4});
  check_runs(shards.merged(), {0, 1, 2, 3, 5, 6, 7});
  CHECK(inspect_trace(shards.merged()).planned_runs == kPrompts);
}

TEST_CASE("trace merge: notes go along with their runs, a damaged file of notes is said and left",
          "[core][trace][merge]") {
  const Shards shards;  // run i of shard s answers prompt s + 3 i
  const auto note = [&](int shard, int run) {
    const std::string ids = ids_hash(run_of(shard + 3 * run));
    return RunNotes{.run = run, .ids = ids, .name = "", .note = "of " + ids, .pins = {}};
  };
  update_notes(shards.paths[0], {note(0, 2)});
  update_notes(shards.paths[1], {note(1, 0), note(1, 1), {.run = 9, .ids = "00", .name = "", .note = "n", .pins = {}}});
  std::ofstream(notes_file(shards.paths[2])) << "{";
  const MergeReport report = shards.merge();
  const MergedNotes merged = merge_notes(shards.paths, report.from, shards.merged());
  CHECK(merged.n_runs == 3);
  REQUIRE(merged.unread.size() == 1);
  CHECK(contains(merged.unread[0], notes_file(shards.paths[2]).string()));
  const std::vector<RunNotes> found = read_notes(shards.merged());
  REQUIRE(found.size() == 3);
  const int prompts[] = {1, 4, 6};  // rising, as the runs of the merged trace are
  for (int i = 0; i < 3; ++i) {
    CHECK(found[i].run == prompts[i]);
    CHECK(found[i].note == "of " + ids_hash(load_trace(shards.merged(), found[i].run)));
  }
  CHECK(read_notes(shards.paths[0]) == std::vector{note(0, 2)});
  CHECK(read_text_file(notes_file(shards.paths[2]), 64) == "{");
}

TEST_CASE("trace merge: shards without notes leave none beside the merged trace", "[core][trace][merge]") {
  const Shards shards;
  const MergeReport report = shards.merge();
  CHECK(merge_notes(shards.paths, report.from, shards.merged()).n_runs == 0);
  CHECK_FALSE(fs::exists(notes_file(shards.merged())));
}

TEST_CASE("trace merge: what does not belong together is named", "[core][trace][merge]") {
  Shards shards;
  CaptureInfo capture = kCapture;
  ModelInfo model = formula_run(0).model;
  SECTION("a missing shard") {
    shards.paths.pop_back();
    CHECK(contains(shards.error(), "no shard has prompt 2, 5"));
  }
  SECTION("the same shard twice") {
    shards.paths.push_back(shards.paths[1]);
    const std::string error = shards.error({.allow_missing = true});
    CHECK(contains(error, "prompt 1 is answered here"));
    CHECK(contains(error, "s1.h5 also answers it"));
  }
  SECTION("another model") {
    model.weights_hash = "ffff";
    shards.write("other.h5", {}, capture, true, model);
    CHECK(contains(shards.error(), "other.h5: weights_hash: ffff"));
  }
  SECTION("another device") {
    model.device = "cuda:0 Other";
    shards.write("other.h5", {}, capture, true, model);
    CHECK(contains(shards.error(), "other.h5: device: cuda:0 Other"));
  }
  SECTION("other prompts") {
    capture.prompts_hash = "4567";
    shards.write("other.h5", {}, capture);
    CHECK(contains(shards.error(), "other.h5: prompts: 8 prompts (4567)"));
  }
  SECTION("another value of an option") {
    capture.request = "--policy 'kvpop:budget=16,sinks=2,window=4' --max-tokens 5 --stop 'it'\\''s --x'";
    shards.write("other.h5", {}, capture);
    CHECK(contains(shards.error(), "other.h5: --max-tokens: --max-tokens 5; expected --max-tokens 4"));
  }
  SECTION("an option that the others have not") {
    capture.request += " --raw";
    shards.write("other.h5", {}, capture);
    CHECK(contains(shards.error(), "other.h5: --raw: --raw; expected no --raw"));
  }
  SECTION("an option less") {
    capture.request = "--policy 'kvpop:budget=16,sinks=2,window=4' --max-tokens 4";
    shards.write("other.h5", {}, capture);
    CHECK(contains(shards.error(), "other.h5: --stop: no --stop; expected --stop 'it'\\''s --x'"));
  }
  SECTION("a trace of kvscope run") {
    save_trace(shards.folder / "single.h5", formula_run(0), true);
    shards.paths.push_back(shards.folder / "single.h5");
    CHECK(contains(shards.error(), "single.h5: a trace that is not from kvscope capture"));
  }
  SECTION("a merged trace") {
    shards.merge();
    fs::rename(shards.merged(), shards.folder / "m.h5");
    shards.paths = {shards.folder / "m.h5"};
    CHECK(contains(shards.error(), "m.h5: a merged trace"));
  }
  SECTION("a shard in another folder") {
    const ScratchFolder elsewhere;
    fs::copy(shards.paths[2], elsewhere / "s2.h5");
    shards.paths[2] = elsewhere / "s2.h5";
    CHECK(contains(shards.error(), "not in the folder of merged.h5"));
    shards.merge({.copy = true});
    check_runs(shards.merged(), kAll);
  }
  SECTION("a damaged shard") {
    fs::resize_file(shards.paths[1], fs::file_size(shards.paths[1]) / 2);
    CHECK(contains(shards.error({.program = kChild}), "s1.h5"));
  }
  SECTION("a file that is there") {
    shards.merge();
    CHECK(contains(shards.error(), "exists"));
    shards.merge({.overwrite = true});
    check_runs(shards.merged(), kAll);
  }
  for (const auto& entry : fs::directory_iterator(shards.folder.path())) CHECK(entry.path().extension() == ".h5");
}

TEST_CASE("trace merge: only its own shards are read, and only as they were", "[core][trace][merge][damage]") {
  Shards shards;
  shards.merge();
  const auto merged = shards.merged();
  const auto edit = [&](auto change) {
    const hid_t file = H5Fopen(merged.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    REQUIRE(file >= 0);
    change(file);
    H5Fclose(file);
  };
  const auto rewrite = [](hid_t file, const char* name, hid_t type, auto value, std::size_t index) {
    const hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(dataset);
    std::vector<decltype(value)> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
    H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    values.at(index) = value;
    REQUIRE(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    H5Sclose(space);
    H5Dclose(dataset);
  };
  const auto rename_first_shard = [&](const char* name) {
    edit([&](hid_t file) {
      const hid_t dataset = H5Dopen2(file, "shards/name", H5P_DEFAULT), type = H5Dget_type(dataset);
      std::string names(3 * H5Tget_size(type), '\0');
      H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, names.data());
      names.replace(0, H5Tget_size(type), std::string(name).append(H5Tget_size(type), '\0'), 0, H5Tget_size(type));
      H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, names.data());
      H5Tclose(type);
      H5Dclose(dataset);
    });
  };
  SECTION("a path in the place of a name") {
    rename_first_shard("/a.h5");
    CHECK(contains(error_of(merged), "the name of a file in the same folder"));
  }
  SECTION("a parent folder in the place of a name") {
    rename_first_shard("..");
    CHECK(contains(error_of(merged), "the name of a file in the same folder"));
  }
  SECTION("another shard than the virtual datasets name") {
    fs::copy(shards.paths[0], shards.folder / "sx.h5");
    rename_first_shard("sx.h5");
    CHECK(contains(error_of(merged), "a virtual dataset over other data"));
  }
  SECTION("a virtual dataset over another one of a shard") {
    edit([&](hid_t file) {
      const hid_t before = H5Dopen2(file, "tokens/logprob", H5P_DEFAULT), space = H5Dget_space(before);
      const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
      REQUIRE(H5Pset_virtual(creation, space, "s0.h5", "/tokens/logprob", space) >= 0);
      H5Dclose(before);
      H5Ldelete(file, "tokens/logprob", H5P_DEFAULT);
      H5Dclose(H5Dcreate2(file, "tokens/logprob", H5T_IEEE_F32LE, space, H5P_DEFAULT, creation, H5P_DEFAULT));
      H5Pclose(creation);
      H5Sclose(space);
    });
    CHECK(contains(error_of(merged), "/tokens/logprob: a virtual dataset over"));
  }
  SECTION("more rows of a shard than it has") {
    edit([&](hid_t file) { rewrite(file, "shards/filled", H5T_STD_I64LE, std::int64_t{1} << 50, 1); });
    CHECK(contains(error_of(merged), "/shards/filled"));
  }
  SECTION("a negative count") {
    edit([&](hid_t file) { rewrite(file, "shards/filled", H5T_STD_I64LE, std::int64_t{-1}, 0); });
    CHECK(contains(error_of(merged), "/shards/filled"));
  }
  SECTION("a run of a shard that is not there") {
    edit([&](hid_t file) { rewrite(file, "shards/of_run", H5T_STD_I32LE, std::int32_t{3}, 0); });
    CHECK(contains(error_of(merged), "/shards/of_run"));
  }
  SECTION("a run said to be in another shard") {
    edit([&](hid_t file) { rewrite(file, "shards/of_run", H5T_STD_I32LE, std::int32_t{1}, 0); });
    CHECK(contains(error_of(merged), "rows outside its shard"));
  }
  SECTION("a shard of another capture under the same name") {
    CaptureInfo capture = kCapture;
    shards.write("s0.h5", {1, 4, 7}, capture);
    CHECK(contains(error_of(merged), "s0.h5") | contains(error_of(merged), "checksum"));
  }
  SECTION("a shard with fewer runs") {
    shards.write("s0.h5", {0}, kCapture);
    CHECK(contains(error_of(merged), "s0.h5: "));
  }
  SECTION("a shard that is a merged trace") {
    fs::copy_file(merged, shards.paths[0], fs::copy_options::overwrite_existing);
    CHECK(error_of(merged) != "");
  }
  SECTION("a shard that is cut") {
    fs::resize_file(shards.paths[0], fs::file_size(shards.paths[0]) - 1);
    CHECK(contains(error_of(merged), "s0.h5"));
  }
  SECTION("a merged trace cannot be continued") {
    CHECK_THROWS_AS(TraceWriter(merged, formula_run(0).model,
                                {.resume = true, .max_runs = kPrompts, .max_positions = 60, .capture = kCapture}),
                    Error);
  }
}

TEST_CASE("trace merge: a merged trace cut at any place is an error", "[core][trace][merge][damage]") {
  const Shards shards(2);
  shards.merge();
  const auto merged = shards.merged();
  for (auto size = fs::file_size(merged) - 1; size > 64; size -= 61) {
    fs::resize_file(merged, size);
    if (error_of(merged).empty()) FAIL("cut to " << size << " bytes it still loads");
  }
}

TEST_CASE("trace merge: progress is told, and what it throws leaves nothing behind", "[core][trace][merge]") {
  const Shards shards;
  const bool copy = GENERATE(false, true);
  int last = -1;
  const auto stop = [&](int done, int total) {
    CHECK(done == last + 1);
    CHECK(total == kPrompts);
    last = done;
    if (done == 5) throw Error({.code = ExitCode::cancelled, .found = "cancelled"});
  };
  CHECK_THROWS_AS(shards.merge({.copy = copy, .progress = stop}), Error);
  CHECK(last == 5);
  CHECK(std::distance(fs::directory_iterator(shards.folder.path()), {}) == 3);
}
