// The reader in a child process: what comes through it, and that nothing which happens to it happens to us.

#include "engine/core/trace/trace_child.h"

#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <functional>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_merge.h"
#include "engine/core/trace/trace_model.h"
#include "tests/core/trace_support.h"
#include "tests/support/folders.h"
#include "tests/support/random_run.h"

using namespace kvscope;
using namespace kvscope::test;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

const fs::path kChild = in_build("tests/core/trace_kill_writer");

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// A program that does this.
fs::path script(const ScratchFolder& folder, const std::string& body) {
  const auto program = folder / "child";
  std::ofstream(program) << "#!/bin/sh\n" << body << "\n";
  fs::permissions(program, fs::perms::owner_all);
  return program;
}

/// Four runs of a capture, or two in each of two shards.
void write_capture(const fs::path& path, int shard = 0, int n_shards = 1) {
  TraceWriter writer(
      path, formula_run(0).model,
      {.max_runs = 4, .max_positions = 60, .capture = {.n_prompts = 4, .shard = shard, .n_shards = n_shards}});
  for (int i = shard; i < 4; i += n_shards) {
    RunRecord run = formula_run(static_cast<std::uint64_t>(i));
    run.prompt_index = i;
    writer.add(run);
  }
  writer.finish();
}

/// Writes every text attribute of an object again as ASCII, as NumPy has it.
void write_attributes_as_ascii(hid_t file, const char* object) {
  const hid_t opened = H5Oopen(file, object, H5P_DEFAULT);
  std::vector<std::string> names;
  H5Aiterate2(
      opened, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5A_info_t*, void* out) -> herr_t {
        static_cast<std::vector<std::string>*>(out)->push_back(name);
        return 0;
      },
      &names);
  for (const std::string& name : names) {
    hid_t attribute = H5Aopen(opened, name.c_str(), H5P_DEFAULT);
    const hid_t type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    if (H5Tget_class(type) == H5T_STRING) {
      std::string bytes(H5Tget_size(type) * static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)), 0);
      REQUIRE(H5Aread(attribute, type, bytes.data()) >= 0);
      H5Aclose(attribute);
      H5Adelete(opened, name.c_str());
      H5Tset_cset(type, H5T_CSET_ASCII);
      attribute = H5Acreate2(opened, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT);
      REQUIRE(H5Awrite(attribute, type, bytes.data()) >= 0);
    }
    H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
  }
  H5Oclose(opened);
}

}  // namespace

TEST_CASE("trace child: a good trace comes through the child as it does without", "[core][trace][child]") {
  const ScratchFolder folder;
  const auto path = folder / "run.h5";
  TraceWriter writer(path, random_run(1).model, {.max_runs = 3, .max_positions = 5000});
  const RunRecord small = random_run(1), large = random_run(2, {.prompt_len = 4000, .n_new = 900});
  RunRecord second = large;
  second.model = small.model;
  writer.add(small);
  writer.add(second);
  writer.finish();
  CHECK(run_difference(TraceReader(kChild, path).load(0), small) == "");
  CHECK(run_difference(TraceReader(kChild, path).load(1), second) == "");
  const TraceInfo direct = inspect_trace(path), guarded = TraceReader(kChild, path).info();
  CHECK(guarded.n_runs == 2);
  CHECK(guarded.planned_runs == 3);
  CHECK(guarded.status == direct.status);
  CHECK(guarded.created_by == direct.created_by);
  CHECK(guarded.version == direct.version);
  CHECK(trace::same_model(guarded.model, direct.model));
  CHECK_THROWS_AS(TraceReader(kChild, path).load(2), Error);
}

TEST_CASE("trace child: a child that crashes, hangs, talks nonsense or is not there is an error",
          "[core][trace][child]") {
  const ScratchFolder folder;
  save_trace(folder / "whole.h5", formula_run(0), true);
  const auto error_with = [&](const fs::path& program) -> std::string {
    const auto start = Clock::now();
    std::string text;
    try {
      TraceReader(program, folder / "whole.h5", {.work = std::chrono::milliseconds(500)}).load(0);
    } catch (const Error& error) {
      text = error.what();
    }
    CHECK(Clock::now() - start < std::chrono::seconds(20));  // 24 times the limit, if others have the machine
    return text;
  };
  CHECK(contains(error_with(script(folder, "kill -SEGV $$")), "crashed the HDF5 reader (signal 11)"));
  CHECK(contains(error_with(script(folder, "exit 3")), "crashed the HDF5 reader (exit code 3)"));
  CHECK(contains(error_with(script(folder, "while :; do :; done")), "longer than 0.5"));
  CHECK(contains(error_with(script(folder, "echo hello")), "the HDF5 reader returned invalid data"));
  CHECK(contains(error_with(script(folder, "exit 0")), "the HDF5 reader returned invalid data"));
  CHECK(contains(error_with(script(folder, "printf '\\003\\377\\377\\377\\377\\377\\377\\377\\177'")),
                 "the HDF5 reader returned invalid data"));
  CHECK(contains(error_with(folder / "nobody"), "nobody"));
}

TEST_CASE("trace child: one that was killed says nothing against the file", "[core][trace][child]") {
  const ScratchFolder folder;
  save_trace(folder / "whole.h5", formula_run(0), true);
  try {
    TraceReader(script(folder, "kill -KILL $$"), folder / "whole.h5");
    FAIL("read");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::resource);
    CHECK(contains(error.what(), "was killed"));
    CHECK_FALSE(contains(error.what(), "whole KVScope trace"));
  }
}

TEST_CASE("trace child: one process opens a trace and reads all its runs, also of shards", "[core][trace][child]") {
  const ScratchFolder folder(true);
  const fs::path log = folder / "log", shards[] = {folder / "0.h5", folder / "1.h5"};
  const auto counting = script(folder, "echo started >> " + log.string() + "\nexec " + kChild.string() + " \"$@\"");
  const auto starts = [&] {
    std::ifstream in(log);
    int n = 0;
    for (std::string line; std::getline(in, line);) ++n;
    return n;
  };
  write_capture(folder / "whole.h5");
  write_capture(shards[0], 0, 2);
  write_capture(shards[1], 1, 2);
  SECTION("one file") {
    TraceReader reader(counting, folder / "whole.h5");
    for (int i = 0; i < 4; ++i) CHECK(reader.load(i).prompt_text == "prompt " + std::to_string(i));
    CHECK_THROWS_AS(reader.load(4), Error);  // which ends nothing
    CHECK(reader.load(3).prompt_text == "prompt 3");
    CHECK(starts() == 1);
  }
  SECTION("a merged one") {
    merge_traces(shards, folder / "merged.h5", {.program = counting});
    CHECK(starts() == 2);
    TraceReader reader(counting, folder / "merged.h5");
    for (int i = 0; i < 4; ++i) CHECK(reader.load(i).prompt_text == "prompt " + std::to_string(i));
    CHECK(starts() == 3);
  }
}

TEST_CASE("trace child: one that gets little of the machine, or nothing of its disk, is waited for",
          "[core][trace][child]") {
  const ScratchFolder folder;
  save_trace(folder / "whole.h5", formula_run(0), true);
  const std::string go_on = "exec " + std::string(kChild) + " \"$@\"";
  const auto slow = GENERATE_COPY(
      "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done; sleep 1; " + go_on,  // others have the machine
      "sleep 2; " + go_on,                                                    // the disk stands still
      "(sleep 2; kill -CONT $$) & kill -STOP $$; " + go_on,                   // somebody has stopped it
      "i=0; while [ $i -lt 20 ]; do i=$((i+1)); sleep 0.1; done; " + go_on);  // it gets a little now and then
  TraceReader reader(script(folder, slow), folder / "whole.h5", {.work = std::chrono::milliseconds(400)});
  CHECK(reader.load(0).n_tokens() == formula_run(0).n_tokens());
}

TEST_CASE("trace child: where there is no end of waiting, the machine is said to be busy and the file not to be bad",
          "[core][trace][child]") {
  const ScratchFolder folder;
  save_trace(folder / "whole.h5", formula_run(0), true);
  const auto check_busy = [](const std::function<void()>& read) {
    try {
      read();
      FAIL("read");
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::resource);
      CHECK(contains(error.what(), "the machine is busy or the disk does not respond; hint: try again"));
      CHECK_FALSE(contains(error.what(), "whole KVScope trace"));
    }
  };
  const ChildLimits limits{.work = std::chrono::milliseconds(50)};
  check_busy([&] { TraceReader(script(folder, "exec sleep 60"), folder / "whole.h5", limits); });
  check_busy([&] { TraceReader(script(folder, "kill -STOP $$"), folder / "whole.h5", limits); });
  const fs::path log = folder / "pid";
  TraceReader reader(script(folder, "echo $$ > " + log.string() + "\nexec " + kChild.string() + " \"$@\""),
                     folder / "whole.h5", {.work = std::chrono::milliseconds(250)});  // a sanitized child starts slowly
  pid_t pid = 0;
  std::ifstream(log) >> pid;
  REQUIRE(pid > 1);
  ::kill(pid, SIGSTOP);
  check_busy([&] { reader.load(0); });
  check_busy([&] { reader.load(0); });  // a reader that was lost says the same again
}

TEST_CASE("trace child: who waits may give up, and a child that could not be loaded says nothing against the file",
          "[core][trace][child]") {
  const ScratchFolder folder;
  save_trace(folder / "whole.h5", formula_run(0), true);
  const auto code_with = [&](const std::string& body) {
    try {
      TraceReader(script(folder, body), folder / "whole.h5");
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::done;
  };
  CHECK(code_with("exit 127") == ExitCode::resource);
  int asked = 0;
  on_slow_reading([&](const fs::path& file, std::chrono::milliseconds) {
    CHECK(file == folder / "whole.h5");
    return ++asked < 3;
  });
  CHECK(code_with("exec sleep 60") == ExitCode::cancelled);
  on_slow_reading(nullptr);
  CHECK(asked == 3);
}

TEST_CASE("trace child: HDF5 that goes round in circles in a damaged file is given up", "[core][trace][child]") {
  CHECK(ChildLimits{}.work <= std::chrono::seconds(5));
  const ScratchFolder folder(true);
  const fs::path shards[] = {folder / "0.h5", folder / "1.h5"}, path = folder / "merged.h5";
  write_capture(shards[0], 0, 2);
  write_capture(shards[1], 1, 2);
  merge_traces(shards, path, {});
  constexpr std::streamoff kPage = 512;
  int given_up = 0;
  for (std::streamoff at = 0; at < static_cast<std::streamoff>(fs::file_size(path)); at += kPage) {
    const auto damaged = folder / "damaged.h5";
    fs::copy_file(path, damaged, fs::copy_options::overwrite_existing);
    std::fstream(damaged, std::ios::in | std::ios::out | std::ios::binary)
        .seekp(at)
        .write(std::string(kPage, '\0').data(), kPage);
    const auto start = Clock::now();
    try {
      TraceReader(kChild, damaged, {.work = std::chrono::milliseconds(400)}).load(0);
    } catch (const Error& error) {
      given_up += contains(error.what(), "reading it took longer than 0.4 s");
    }
    CAPTURE(at);
    CHECK(Clock::now() - start < std::chrono::seconds(20));
  }
  CHECK(given_up >= 1);  // else the test did not test what it says
}

TEST_CASE("trace child: Ctrl+C for the whole group does not look like a bad file", "[core][trace][child]") {
  const ScratchFolder folder(true);
  write_capture(folder / "whole.h5");
  const fs::path log = folder / "pid";
  const auto telling = script(folder, "echo $$ > " + log.string() + "\nexec " + kChild.string() + " \"$@\"");
  TraceReader reader(telling, folder / "whole.h5");
  const pid_t child = [&] {
    pid_t pid = 0;
    std::ifstream(log) >> pid;
    return pid;
  }();
  REQUIRE(child > 1);
  ::kill(child, SIGINT);
  ::kill(child, SIGTERM);
  CHECK(reader.load(2).prompt_text == "prompt 2");
}

TEST_CASE("trace child: a copy whose text attributes are ASCII, as h5py copies them, is the same trace",
          "[core][trace][child]") {
  const ScratchFolder folder(true);
  const auto path = folder / "copy.h5";
  write_capture(path);
  const TraceInfo before = inspect_trace(path);
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  for (const char* object : {"/", "/model", "/capture"}) write_attributes_as_ascii(file, object);
  H5Fclose(file);
  const TraceInfo after = inspect_trace(path);
  CHECK(after.capture == before.capture);
  CHECK(trace::same_model(after.model, before.model));
  CHECK(load_trace(path, 3).prompt_text == "prompt 3");
}
