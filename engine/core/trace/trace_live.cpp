#include "engine/core/trace/trace_live.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>

#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::trace {

namespace {

// Room for each position in the byte pools; a hole in a sparse file costs nothing. The longest tokens of large
// vocabularies have 128 bytes.
constexpr std::int64_t kPieceBytes = 256, kTextBytes = 64, kTextBytesPerRun = 65536;

Extents capacity_of(const ModelInfo& model, const LiveTrace::Capacity& capacity) {
  Extents extents;
  extents[Axis::run] = capacity.runs;
  extents[Axis::token] = capacity.positions;
  // A token takes part as newcomer once, so each head has at most one contest a position.
  extents[Axis::contest] = capacity.positions * model.n_layers * model.n_kv_heads;
  extents[Axis::piece_byte] = capacity.positions * kPieceBytes;
  extents[Axis::text_byte] = capacity.positions * kTextBytes + capacity.runs * kTextBytesPerRun;
  extents[Axis::layer] = model.n_layers;
  extents[Axis::kv_head] = model.n_kv_heads;
  return extents;
}

}  // namespace

std::filesystem::path writable_target(const std::filesystem::path& path, bool replace) {
  std::error_code ignored;
  // A link to a trace on another disk stays a link; the file it names is what is replaced.
  const auto target = std::filesystem::is_symlink(path, ignored) ? std::filesystem::weakly_canonical(path) : path;
  const auto folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, ignored))
    throw Error({.file = path.string(), .found = "there is no folder " + folder.string(), .hint = "make it first"});
  const auto status = std::filesystem::status(target, ignored);
  if (!std::filesystem::exists(status)) return target;
  if (!std::filesystem::is_regular_file(status))
    throw Error({.file = path.string(), .found = "not a regular file", .expected = "a new name or a trace to replace"});
  if (!replace)
    throw Error({.file = path.string(), .found = "the file exists", .hint = "choose another name or overwrite it"});
  return target;
}

std::filesystem::path temporary_name(const std::filesystem::path& path, const char* tag) {
  std::string name = ".";  // built in steps: gcc 12 warns falsely about "." + string
  name += path.filename().string() + "." + std::to_string(::getpid()) + "." + tag;
  return path.parent_path() / name;
}

void rename_into_place(const std::filesystem::path& from, const std::filesystem::path& to, bool replace) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), replace ? 0 : RENAME_NOREPLACE);
  // Some network file systems know no flags; check_target() has then seen that the name was free.
  if (result != 0 && errno == EINVAL && !replace) result = ::rename(from.c_str(), to.c_str());
  if (result != 0) throw_errno(errno, to, "rename");
  const auto folder = to.has_parent_path() ? to.parent_path() : std::filesystem::path(".");
  FileHandle handle(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (handle.get() >= 0) ::fsync(handle.get());
}

LiveTrace::LiveTrace(const std::filesystem::path& path, const ModelInfo& model, Capacity capacity, bool replace)
    : path_(writable_target(path, replace)), model_(model), planned_runs_(capacity.runs) {
  hdf5_start();
  check_model(model, path_.string());
  if (capacity.runs < 1 || capacity.positions < 0 || capacity.positions > (std::int64_t{1} << 40))
    throw Error({.code = ExitCode::internal,
                 .file = path_.string(),
                 .found = "no room asked for",
                 .expected = "at least one run"});
  capacity_ = capacity_of(model, capacity);
  filled_[Axis::layer] = model.n_layers;
  filled_[Axis::kv_head] = model.n_kv_heads;

  // Under another name until all metadata are on disk: a kill before that leaves no trace of this name at all.
  const auto temporary = temporary_name(path_, "new");
  ::unlink(temporary.c_str());
  try {
    trace_ = create_trace(temporary.string(), model_, capacity_, Storage::live, planned_runs_);
    flush_to_disk(trace_.file);
    rename_into_place(temporary, path_, replace);
  } catch (const H5Error& error) {
    ::unlink(temporary.c_str());
    give_up(error);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

LiveTrace::~LiveTrace() {
  if (broken_) trace_.leak();
}

void LiveTrace::add(const RunRecord& run) {
  hdf5_start();
  const std::string file = path_.string();
  if (broken_)
    throw Error({.code = ExitCode::resource,
                 .file = file,
                 .found = "could not be written before",
                 .hint = "it keeps its " + std::to_string(committed_) + " committed runs"});
  if (!same_model(run.model, model_))
    throw Error({.code = ExitCode::internal,
                 .file = file,
                 .found = "a run of model " + run.model.name,
                 .expected = "one model a trace: " + model_.name});
  const RunBlock block = encode_run(run, filled_, committed_);
  check_capacity(block);
  decode_run(block, model_, file);  // what could not be read back is not written
  try {
    for (const auto& dataset : kSchema)
      write_part(trace_, dataset.id, block.slice.begin, block.slice.count, block[dataset.id].data());
    flush_to_disk(trace_.file);
    write_committed(trace_, committed_ + 1);
    flush_to_disk(trace_.file);
  } catch (const H5Error& error) {
    give_up(error);
  }
  ++committed_;
  for (int axis = 0; axis < kAxes; ++axis)
    if (grows(static_cast<Axis>(axis))) filled_.size[axis] += block.slice.count.size[axis];
}

void LiveTrace::check_capacity(const RunBlock& block) const {
  for (int i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<Axis>(i);
    const auto left = capacity_[axis] - filled_[axis];
    if (grows(axis) && block.slice.count[axis] > left)
      throw Error({.code = ExitCode::resource,
                   .file = path_.string(),
                   .where = "run " + std::to_string(committed_),
                   .found = std::to_string(block.slice.count[axis]) + " " + kAxisNames[i] + "s",
                   .expected = "at most " + std::to_string(left) + ", which is the room that is left"});
  }
}

void LiveTrace::give_up(const H5Error& error) {
  broken_ = true;
  trace_.leak();
  throw Error({.code = ExitCode::resource,
               .file = path_.string(),
               .where = error.action(),
               .found = error.reason(),
               .expected = committed_ > 0 ? "the " + std::to_string(committed_) + " committed runs are safe" : "",
               .hint = "free some space, or write to another place"});
}

void LiveTrace::pack(const std::filesystem::path& target) const {
  hdf5_start();
  const auto temporary = temporary_name(target, "packed");
  ::unlink(temporary.c_str());
  try {
    write_packed(trace_, filled_, model_, planned_runs_, temporary.string());
    rename_into_place(temporary, target, true);
  } catch (const H5Error& error) {
    ::unlink(temporary.c_str());
    throw Error({.code = ExitCode::resource,
                 .file = target.string(),
                 .where = "pack, " + error.action(),
                 .found = error.reason(),
                 .expected = "all " + std::to_string(committed_) + " runs stand unpacked in " + path_.string()});
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void LiveTrace::close() {
  hdf5_start();
  if (!broken_) trace_ = OpenTrace{};
}

}  // namespace kvscope::trace
