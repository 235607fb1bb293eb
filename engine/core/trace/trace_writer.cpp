#include <unistd.h>

#include "engine/core/support/error.h"
#include "engine/core/trace/prepared_run.h"
#include "engine/core/trace/trace_file.h"
#include "engine/core/trace/trace_live.h"

namespace kvscope {

struct TraceWriter::Impl {
  trace::LiveTrace live;
  bool finished = false;
};

TraceWriter::TraceWriter(std::filesystem::path path, const ModelInfo& model, const Options& options, FileHandle lock) {
  const std::int64_t all = static_cast<std::int64_t>(options.max_runs) * options.max_positions;
  const std::int64_t positions = options.total_positions > 0 ? options.total_positions : all;
  const trace::Heading heading{model, options.capture, options.max_runs};
  std::error_code ignored;
  const bool exists = std::filesystem::exists(path, ignored);
  if (options.resume && exists) {
    if (lock.get() < 0) lock = lock_trace(path);
    impl_.reset(new Impl{trace::LiveTrace::resume(path, heading, positions, std::move(lock))});
  } else {
    trace::remove_leftovers(path);
    impl_.reset(new Impl{{path, heading, positions, options.overwrite}});
  }
}

TraceWriter::~TraceWriter() = default;

void TraceWriter::add(const RunRecord& run) {
  append(run);
  commit();
}

trace::RunPlace TraceWriter::place() const { return impl_->live.place(); }

void TraceWriter::append(const RunRecord& run) { append(PreparedRun(run, place())); }

void TraceWriter::append(const PreparedRun& prepared) {
  if (impl_->finished)
    throw Error({.code = ExitCode::internal, .file = impl_->live.path().string(), .found = "a run after finish()"});
  impl_->live.append(prepared);
}

void TraceWriter::commit() { impl_->live.commit(); }

int TraceWriter::committed() const { return impl_->live.committed(); }

void TraceWriter::finish() {
  if (impl_->finished) return;
  impl_->live.commit();
  impl_->live.pack(impl_->live.path());
  impl_->live.close();
  impl_->finished = true;
}

void save_trace(const std::filesystem::path& path, const RunRecord& run, bool overwrite) {
  // The live file stands beside the target, so that an older trace of this name stays whole until the new one is.
  const auto target = writable_target(path, overwrite);
  const FileHandle replaced = trace::lock_if_there(target);
  trace::remove_leftovers(target);
  const auto live_path = trace::temporary_name(target, "live");
  struct Remove {
    const std::filesystem::path& path;
    ~Remove() { ::unlink(path.c_str()); }
  } remove{live_path};
  trace::LiveTrace live(live_path, {run.model, {}, 1}, run.n_tokens(), true);
  live.add(run);
  live.pack(target, overwrite);
}

}  // namespace kvscope
