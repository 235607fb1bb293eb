#include "engine/core/trace/trace_live.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "engine/core/support/file.h"
#include "engine/core/support/file_lock.h"
#include "engine/core/support/refuse.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_model.h"
#include "engine/core/trace/trace_spans.h"

namespace kvscope {

FileHandle lock_trace(const std::filesystem::path& path) {
  FileHandle handle(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (handle.get() < 0) throw_errno(errno, path, "open");
  struct stat locked {
  }, now{};
  take_lock(handle, path);
  // Between open() and flock() its writer may have put another file in this one's place.
  const bool replaced =
      ::fstat(handle.get(), &locked) != 0 || ::stat(path.c_str(), &now) != 0 || locked.st_ino != now.st_ino;
  if (replaced)
    throw Error({.code = ExitCode::resource,
                 .file = path.string(),
                 .found = "another process is writing it",
                 .hint = "wait until it ends"});
  return handle;
}

}  // namespace kvscope

namespace kvscope::trace {

namespace {

// Room for each position in the byte pools, which is mostly enough; a hole in a sparse file costs nothing. The longest tokens
// of large vocabularies have 128 bytes.
constexpr std::int64_t kPieceBytes = 256, kTextBytes = 64, kTextBytesPerRun = 65536;
// How much more room than it needs an axis gets that has grown out of what it had.
constexpr std::int64_t kGrowth = 8;

/// Few policies select pages, and how many is not known before; neither is how long a text is that was too long to be decoded,
/// nor the longest token that a file has added.
constexpr Axis kGrowOnDemand[] = {Axis::read, Axis::page, Axis::piece_byte, Axis::text_byte};
bool grows_on_demand(Axis axis) { return std::ranges::find(kGrowOnDemand, axis) != std::end(kGrowOnDemand); }

Extents capacity_of(const Heading& heading, std::int64_t positions, const std::filesystem::path& path) {
  hdf5_start();
  check_model(heading.model, path.string());
  if (heading.planned_runs < 1 || positions < 0 || positions > (std::int64_t{1} << 40))
    throw Error({.code = ExitCode::internal,
                 .file = path.string(),
                 .found = "no space reserved",
                 .expected = "at least one run"});
  Extents extents;
  extents[Axis::run] = heading.planned_runs;
  extents[Axis::token] = positions;
  // A token takes part as newcomer once, so each head has at most one contest a position.
  extents[Axis::contest] = positions * heading.model.n_layers * heading.model.n_kv_heads;
  extents[Axis::piece_byte] = positions * kPieceBytes;
  extents[Axis::text_byte] = positions * kTextBytes + heading.planned_runs * kTextBytesPerRun;
  extents[Axis::layer] = heading.model.n_layers;
  extents[Axis::kv_head] = heading.model.n_kv_heads;
  return extents;
}

}  // namespace

struct LiveTrace::Resumed {
  FileHandle lock;
  ValidTrace valid;
  Extents filled;
};

FileHandle lock_if_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? lock_trace(path) : FileHandle();
}

LiveTrace::LiveTrace(const std::filesystem::path& path, const Heading& heading, std::int64_t positions, bool replace)
    : path_(writable_target(path, true)), heading_(heading), capacity_(capacity_of(heading, positions, path)) {
  filled_[Axis::layer] = heading.model.n_layers;
  filled_[Axis::kv_head] = heading.model.n_kv_heads;
  if (replace) replaced_ = lock_if_there(path_);
  create(replace, nullptr);  // which takes the name, or finds it taken: between a look and that, another may have come
}

/// Under another name until all metadata, and the rows of `before`, are on disk: a kill before that leaves what there
/// was.
void LiveTrace::create(bool replace, const OpenTrace* before) {
  temporary_ = temporary_name(path_, "new");
  ::unlink(temporary_.c_str());
  try {
    OpenTrace created = create_trace(temporary_.string(), heading_, capacity_, Storage::live);
    try {
      if (before) {
        copy_rows(*before, created, filled_);
        write_committed(created, committed_);
      }
      flush_to_disk(created.file);
      FileHandle lock = lock_trace(temporary_);
      if (committed_ > 0 || replaced_.get() < 0) take_name(replace);
      lock_ = std::move(lock);
    } catch (...) {
      created.leak();
      throw;
    }
    trace_ = std::move(created);
  } catch (const H5Error& error) {
    drop_temporary();
    give_up(error);
  } catch (...) {
    drop_temporary();
    throw;
  }
}

void LiveTrace::take_name(bool replace) {
  rename_into_place(temporary_, path_, replace);
  temporary_.clear();
}

void LiveTrace::drop_temporary() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

LiveTrace LiveTrace::resume(const std::filesystem::path& path, const Heading& heading, std::int64_t positions,
                            FileHandle lock) {
  const auto target = writable_target(path, true);
  remove_leftovers(target);
  Resumed resumed{std::move(lock), open_valid(target), {}};
  const std::string file = target.string();
  if (!resumed.valid.info.shards.empty())
    refuse(file, "", "a merged trace", "one with its own data", "continue with its shards");
  if (!same_model(resumed.valid.info.model, heading.model) || resumed.valid.info.capture != heading.capture)
    throw Error({.code = ExitCode::internal, .file = file, .found = "a trace of another model or list of prompts"});
  resumed.filled = filled_of(resumed.valid);
  return LiveTrace(std::move(resumed), heading, positions);
}

LiveTrace::LiveTrace(Resumed resumed, const Heading& heading, std::int64_t positions)
    : path_(resumed.valid.file), heading_(heading), capacity_(capacity_of(heading, positions, path_)) {
  if (resumed.valid.info.version < kVersion) {
    renew(std::move(resumed));
    return;
  }
  filled_ = resumed.filled;
  written_ = committed_ = resumed.valid.info.n_runs;
  bool has_room = resumed.valid.info.status == "partial" && resumed.valid.info.planned_runs == heading.planned_runs;
  for (int axis = 0; axis < kAxes; ++axis)
    has_room = has_room && resumed.valid.extents.size[axis] >= capacity_.size[axis];
  if (!has_room) {
    // Reads and pages have the room that they were given, and no other axis may shrink.
    for (int axis = 0; axis < kAxes; ++axis) capacity_.size[axis] = std::max(capacity_.size[axis], filled_.size[axis]);
    create(true, &resumed.valid.trace);
    return;
  }
  capacity_ = resumed.valid.extents;
  lock_ = std::move(resumed.lock);
  resumed.valid.trace = OpenTrace{};
  try {
    trace_ = reopen_trace(path_.string());
  } catch (const H5Error& error) {
    give_up(error);
  }
}

/// The runs of an older version as those of this one, in a new file that takes the name when it has them all.
void LiveTrace::renew(Resumed resumed) {
  const int n_runs = resumed.valid.info.n_runs;
  for (int axis = 0; axis < kAxes; ++axis)
    capacity_.size[axis] = std::max(capacity_.size[axis], resumed.filled.size[axis]);
  capacity_[Axis::text_byte] += n_runs * kTextBytesPerRun;  // what this version has besides
  filled_[Axis::layer] = heading_.model.n_layers;
  filled_[Axis::kv_head] = heading_.model.n_kv_heads;
  replaced_ = std::move(resumed.lock);
  named_with_ = n_runs;
  resumed.valid.trace = OpenTrace{};
  TraceReader reader("", path_);
  create(true, nullptr);
  for (int run = 0; run < n_runs; ++run) append(PreparedRun(reader.load(run), place()));
  commit();
}

LiveTrace::~LiveTrace() {
  drop_temporary();
  if (broken_) trace_.leak();
}

void LiveTrace::append(const PreparedRun& prepared) {
  hdf5_start();
  const std::string file = path_.string();
  if (broken_)
    throw Error({.code = ExitCode::resource,
                 .file = file,
                 .found = "an earlier write failed",
                 .hint = "it still has its " + std::to_string(committed_) + " complete runs"});
  if (!same_model(prepared.model(), heading_.model))
    throw Error({.code = ExitCode::internal,
                 .file = file,
                 .found = "a run of model " + prepared.model().name,
                 .expected = "one model per trace: " + heading_.model.name});
  if (prepared.place() != place())
    throw Error({.code = ExitCode::internal,
                 .file = file,
                 .found = "a run prepared as number " + std::to_string(prepared.place().number),
                 .expected = "number " + std::to_string(written_) + ", after those that are there"});
  const RunBlock& block = prepared.block();
  check_capacity(block);
  make_room(block);
  try {
    for (const auto& dataset : datasets_of(kVersion))
      write_part(trace_, dataset.id, block.slice.begin, block.slice.count, block[dataset.id].data());
  } catch (const H5Error& error) {
    give_up(error);
  }
  RunPlace next = place();
  next.pass(block);
  filled_ = next.filled;
  written_ = next.number;
}

void LiveTrace::commit() {
  if (broken_ || committed_ == written_) return;
  try {
    flush_to_disk(trace_.file);
    write_committed(trace_, written_);
    flush_to_disk(trace_.file);
    if (!temporary_.empty() && written_ >= named_with_) take_name(true);
  } catch (const H5Error& error) {
    give_up(error);
  }
  committed_ = written_;
}

/// Axes that grow on demand grow into a new file that takes the place of this one.
void LiveTrace::make_room(const RunBlock& block) {
  bool grown = false;
  for (const Axis axis : kGrowOnDemand) {
    const auto needed = filled_[axis] + block.slice.count[axis];
    if (needed <= capacity_[axis]) continue;
    capacity_[axis] = kGrowth * needed;
    grown = true;
  }
  if (!grown) return;
  commit();  // the new file counts all that it has
  create(true, &trace_);
}

void LiveTrace::check_capacity(const RunBlock& block) const {
  std::size_t bytes = 0;
  for (const auto& column : block.columns) bytes += column.size();
  if (bytes > static_cast<std::size_t>(kMaxRunBytes))  // no reader would take it
    throw Error({.code = ExitCode::resource,
                 .file = path_.string(),
                 .where = "run " + std::to_string(written_),
                 .found = std::to_string(bytes) + " bytes",
                 .expected = "at most 2 GiB"});
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const auto left = capacity_[axis] - filled_[axis];
    if (grows(axis) && !grows_on_demand(axis) && block.slice.count[axis] > left)
      throw Error({.code = ExitCode::resource,
                   .file = path_.string(),
                   .where = "run " + std::to_string(written_),
                   .found = std::to_string(block.slice.count[axis]) + " " + kAxisNames[i] + "s",
                   .expected = "at most " + std::to_string(left) + ", the space that is left"});
  }
}

void LiveTrace::give_up(const H5Error& error) {
  broken_ = true;
  trace_.leak();
  const std::string safe =
      committed_ > 0 ? "the " + std::to_string(committed_) + " complete runs are safe; " : std::string();
  throw error.of_file(path_.string(), safe + "free some space, or write to another disk");
}

void LiveTrace::pack(const std::filesystem::path& target, bool replace) const {
  hdf5_start();
  const auto temporary = temporary_name(target, "packed");
  ::unlink(temporary.c_str());
  try {
    write_packed(trace_, filled_, heading_, temporary.string());
    rename_into_place(temporary, target, replace);
  } catch (const H5Error& error) {
    ::unlink(temporary.c_str());
    throw error.of_file(target.string(), "all " + std::to_string(committed_) + " runs are stored uncompressed in " +
                                             path_.string() + "; free some space to compress them");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void LiveTrace::close() {
  hdf5_start();
  if (!broken_) trace_ = OpenTrace{};
  lock_ = FileHandle();
}

}  // namespace kvscope::trace
