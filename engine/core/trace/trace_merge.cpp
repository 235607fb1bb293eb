#include "engine/core/trace/trace_merge.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/core/support/error.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_live.h"
#include "engine/core/trace/trace_shards.h"

namespace kvscope {

namespace {

using namespace trace;
namespace fs = std::filesystem;

class Merge {
 public:
  Merge(std::span<const fs::path> shards, const fs::path& target, const MergeOptions& options)
      : paths_(shards),
        target_(writable_target(target, options.overwrite, shards)),
        replaced_(lock_if_there(target_)),
        options_(options) {
    inspect();
    place_runs();
  }

  MergeReport write() {
    remove_leftovers(target_);
    options_.copy ? write_copy() : write_virtual();
    return report_;
  }

 private:
  [[noreturn]] static void fail(const fs::path& file, std::string found, std::string expected, std::string hint = "") {
    throw Error(
        {.file = file.string(), .found = std::move(found), .expected = std::move(expected), .hint = std::move(hint)});
  }

  /// Each may be a process.
  TraceReader& reader(int shard) {
    constexpr std::size_t kOpen = 32;
    const auto open = readers_.find(shard);
    if (open != readers_.end()) return open->second;
    if (readers_.size() >= kOpen) readers_.clear();
    const fs::path& path = paths_[static_cast<std::size_t>(shard)];
    return readers_.emplace(shard, TraceReader(options_.program, path)).first->second;
  }
  RunRecord load(MergedRun place, Slice* slice = nullptr) {
    RunRecord run = reader(place.shard).load(place.run, slice);
    run.model = heading_.model;  // one name and one path for all; nothing else differs
    return run;
  }

  /// What each shard says of itself, and whether they are parts of one.
  void inspect() {
    for (std::size_t i = 0; i < paths_.size(); ++i) {
      const fs::path& path = paths_[i];
      const TraceInfo& info = infos_.emplace_back(reader(static_cast<int>(i)).info());
      if (!info.shards.empty()) fail(path, "a merged trace", "a shard", "list its shards instead");
      if (info.capture.n_prompts == 0)
        fail(path, "a trace that is not from kvscope capture", "a shard of kvscope capture");
      const TraceInfo& first = infos_.front();
      // Rows that stay in the shards are as they are, and what is counted from them is not as it was.
      if (info.version != kVersion && !options_.copy)
        fail(path, "a trace of version " + std::to_string(info.version),
             "version " + std::to_string(kVersion) + " for shards that are not copied", "merge with --copy");
      auto difference = model_difference(info.model, first.model);
      if (!difference) difference = capture_difference(info.capture, first.capture);
      if (difference)
        fail(path, difference->what + ": " + difference->a, difference->b + " as in " + paths_[0].string());
    }
    heading_.model = infos_[0].model;
    heading_.capture = infos_[0].capture;
    heading_.capture.shard = 0;
    heading_.capture.n_shards = 1;
    heading_.planned_runs = report_.n_prompts = heading_.capture.n_prompts;
  }

  /// Every prompt's run, none twice.
  void place_runs() {
    std::vector<MergedRun> of_prompt(static_cast<std::size_t>(report_.n_prompts), MergedRun{-1, -1});
    for (std::size_t shard = 0; shard < infos_.size(); ++shard) {
      for (int run = 0; run < infos_[shard].n_runs; ++run) {
        const auto index = infos_[shard].prompt_index[run];
        if (index < 0 || index >= report_.n_prompts)
          fail(paths_[shard], "run " + std::to_string(run) + " answers prompt " + std::to_string(index),
               "0 to " + std::to_string(report_.n_prompts - 1));
        MergedRun& place = of_prompt[index];
        if (place.shard >= 0)
          fail(paths_[shard], "prompt " + std::to_string(index) + " is answered here",
               "once: " + paths_[place.shard].string() + " also answers it");
        place = {static_cast<int>(shard), run};
      }
    }
    for (std::int32_t index = 0; index < report_.n_prompts; ++index) {
      if (of_prompt[index].shard < 0) {
        report_.missing.push_back(index);
      } else {
        report_.from.push_back(of_prompt[index]);
      }
    }
    report_.n_runs = static_cast<int>(report_.from.size());
    if (report_.from.empty()) fail(paths_[0], "no run in any shard", "at least one");
    if (!report_.missing.empty() && !options_.allow_missing) fail_missing();
  }

  [[noreturn]] void fail_missing() const {
    std::string list;
    const std::size_t n = report_.missing.size(), shown = std::min<std::size_t>(n, 5);
    for (std::size_t i = 0; i < shown; ++i) list += (i ? ", " : "") + std::to_string(report_.missing[i]);
    if (n > shown) list += " and " + std::to_string(n - shown) + " more";
    fail(target_, "no shard has prompt " + list, "all " + std::to_string(report_.n_prompts) + " prompts",
         "finish the shards with kvscope capture --resume, or leave out these prompts with --allow-missing");
  }

  void tell(int done) const {
    if (options_.progress) options_.progress(done, report_.n_runs);
  }

  /// As if the shards had been one capture from the start.
  void write_copy() {
    std::int64_t positions = 0;
    for (std::size_t shard = 0; shard < paths_.size(); ++shard)
      positions += reader(static_cast<int>(shard)).rows().filled[Axis::token];
    const auto live_path = temporary_name(target_, "live");
    struct Remove {
      const fs::path& path;
      ~Remove() { ::unlink(path.c_str()); }
    } remove{live_path};
    LiveTrace live(live_path, heading_, positions, true);
    for (int i = 0; i < report_.n_runs; ++i) {
      tell(i);
      const RunRecord run = load(report_.from[i]);
      live.add(run);
      report_.n_tokens += run.n_tokens();
    }
    live.pack(target_, options_.overwrite);
  }

  void write_virtual() {
    check_folders();
    const Extents extents = fill_table();
    const auto temporary = temporary_name(target_, "new");
    ::unlink(temporary.c_str());
    OpenTrace merged;
    try {
      merged = create_trace(temporary.string(), heading_, extents, Storage::merged);
      for (int i = 0; i < report_.n_runs; ++i) {
        tell(i);
        write_run(merged, i);
      }
      write_summary(merged, extents);
      write_committed(merged, report_.n_runs);
      flush_to_disk(merged.file);
      rename_into_place(temporary, target_, options_.overwrite);
    } catch (const H5Error& error) {
      merged.leak();
      ::unlink(temporary.c_str());
      throw error.of_file(target_.string(), "the shards are unchanged; free some space, or write to another disk");
    } catch (...) {
      merged.leak();
      ::unlink(temporary.c_str());
      throw;
    }
  }

  void check_folders() const {
    const auto folder = [](const fs::path& path) {
      return fs::weakly_canonical(path.has_parent_path() ? path.parent_path() : fs::path("."));
    };
    if (static_cast<std::int64_t>(paths_.size()) > kMaxShards)
      fail(target_, std::to_string(paths_.size()) + " shards", "at most " + std::to_string(kMaxShards),
           "merge with --copy");
    for (const fs::path& path : paths_) {
      if (folder(path) != folder(target_))
        fail(path, "it is not in the folder of " + target_.filename().string(), "all in one folder",
             "write the merged file there, or merge with --copy");
      if (!is_shard_name(path.filename().string()))
        fail(path, "a name that a virtual dataset cannot refer to", "a name without %",
             "rename it, or merge with --copy");
    }
  }

  /// The table of the shards; gives the axes of the merged file.
  Extents fill_table() {
    Extents extents;
    extents[Axis::layer] = heading_.model.n_layers;
    extents[Axis::kv_head] = heading_.model.n_kv_heads;
    for (std::size_t shard = 0; shard < paths_.size(); ++shard) {
      const TraceRows rows = reader(static_cast<int>(shard)).rows();
      heading_.shards.names.push_back(paths_[shard].filename().string());
      heading_.shards.extents.push_back(rows.extents);
      heading_.shards.filled.push_back(rows.filled);
      for (const Axis axis : kFilledAxes) extents[axis] += rows.filled[axis];
    }
    for (const MergedRun& place : report_.from) heading_.shards.of_run.push_back(place.shard);
    if (extents[Axis::run] != report_.n_runs)
      fail(target_, "a shard changed during the merge", "shards that are no longer being written", "try again");
    return extents;
  }

  /// Run `number` of the merged file: the columns that count from its start, and those of the run axis.
  void write_run(const OpenTrace& merged, int number) {
    const MergedRun place = report_.from[number];
    Slice slice;
    const RunRecord run = load(place, &slice);
    Extents begin = slice.begin;
    begin[Axis::run] = number;
    for (const Axis axis : kShardAxes) begin[axis] += heading_.shards.offset(place.shard, axis);
    const RunBlock block = encode_run(run, begin, number);
    for (const auto& dataset : datasets_of(kVersion))
      if (!is_in_shards(dataset))
        write_part(merged, dataset.id, block.slice.begin, block.slice.count, block[dataset.id].data());
    report_.n_tokens += run.n_tokens();
  }

  std::span<const fs::path> paths_;
  fs::path target_;
  FileHandle replaced_;  // lock of the file at target_ that is to be replaced
  const MergeOptions& options_;
  std::map<int, TraceReader> readers_;  // of the shards that are open
  std::vector<TraceInfo> infos_;
  Heading heading_;
  MergeReport report_;
};

}  // namespace

MergeReport merge_traces(std::span<const fs::path> shards, const fs::path& target, const MergeOptions& options) {
  hdf5_start();
  if (shards.empty()) throw Error({.code = ExitCode::usage, .found = "no shard to merge"});
  return Merge(shards, target, options).write();
}

}  // namespace kvscope
