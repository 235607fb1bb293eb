#include "engine/core/trace/trace_child.h"

#include <unistd.h>

#include <cerrno>

#include "engine/core/trace/confined_child.h"
#include "engine/core/trace/trace_message.h"
#include "engine/core/trace/trace_spans.h"

namespace kvscope {

namespace {

using namespace trace;

constexpr const char* kWanted = "a whole KVScope trace";

/// Column by column: a large run would not fit the address space twice.
bool send_run(RunReader& reader, int run) {
  RunBlock block = reader.find(run);
  MessageWriter out;
  put_run(out, block);
  bool sent = write_frame(MessageKind::run, out.bytes());
  for (const auto& dataset : datasets_of(block.version)) {
    auto& column = block[dataset.id];
    reader.read(block, dataset);
    sent = sent && write_frame(MessageKind::column, {reinterpret_cast<const char*>(column.data()), column.size()});
    if (dataset.axes[0] != Axis::run) std::vector<std::byte>().swap(column);  // those say what is padding
  }
  return sent;
}

bool send_rows(const RunReader& reader) {
  MessageWriter out;
  put_rows(out, {reader.valid().extents, filled_of(reader.valid())});
  return write_frame(MessageKind::rows, out.bytes());
}

bool read_request(std::int32_t& run) {
  ssize_t n = 0;
  do {
    n = ::read(STDIN_FILENO, &run, sizeof run);  // four bytes of a socket come at once
  } while (n < 0 && errno == EINTR);
  return n == sizeof run;
}

}  // namespace

int trace_child_main(int argc, char** argv) {
  if (argc != 3) return static_cast<int>(ExitCode::usage);
  confine();
  limit_cpu();
  const std::string file = argv[2];
  std::optional<RunReader> reader;
  bool heard = answer_with(file, kWanted, [&] {
    reader.emplace(file);
    MessageWriter out;
    put_info(out, reader->valid().info);
    return write_frame(MessageKind::info, out.bytes());
  });
  std::int32_t run = -1;
  while (heard && reader && read_request(run)) {
    limit_cpu();
    heard = answer_with(file, kWanted, [&] { return run == kAskRows ? send_rows(*reader) : send_run(*reader, run); });
  }
  return heard ? 0 : static_cast<int>(ExitCode::resource);
}

}  // namespace kvscope
