// The parent's side of trace_child.h.

#include <variant>

#include "engine/core/trace/guarded_child.h"
#include "engine/core/trace/trace_child.h"
#include "engine/core/trace/trace_message.h"
#include "engine/core/trace/trace_model.h"
#include "engine/core/trace/trace_spans.h"

namespace kvscope {

namespace {

using namespace trace;
namespace fs = std::filesystem;

constexpr double kBytesPerMs = (32 << 20) / 1000.0;

class TraceChild {
 public:
  TraceChild(const fs::path& program, const fs::path& path, const ChildLimits& limits)
      : path_(path), child_(program, "--trace-child", path, "a whole KVScope trace", limits) {}

  TraceInfo info() {
    return child_.answer([&] {
      const std::string body = child_.frame(MessageKind::info);
      MessageReader in(body);
      TraceInfo info = get_info(in);
      check_model(info.model, path_.string());
      return info;
    });
  }

  TraceRows rows() {
    return child_.answer([&] {
      child_.ask(kAskRows);
      const std::string body = child_.frame(MessageKind::rows);
      MessageReader in(body);
      return get_rows(in);
    });
  }

  RunBlock run(std::int32_t number) {
    return child_.answer([&] {
      child_.ask(number);
      const std::string body = child_.frame(MessageKind::run);
      MessageReader in(body);
      RunBlock block = get_run(in);
      if (block.run != number || !in.at_end()) throw BadMessage{};
      child_.extend(std::chrono::milliseconds(static_cast<long>(run_bytes(block) / kBytesPerMs)));
      for (const auto& dataset : datasets_of(block.version)) {
        auto& column = block[dataset.id];
        const std::size_t n = n_elements(dataset, block.slice.count) * size_of(dataset.type);
        const std::size_t sent = child_.frame_size(MessageKind::column);
        if (sent != n && !(sent == 0 && is_padding(block, dataset.id))) throw BadMessage{};
        column.resize(sent);
        child_.read({reinterpret_cast<char*>(column.data()), sent});
      }
      return block;
    });
  }

 private:
  fs::path path_;
  GuardedChild child_;
};

}  // namespace

struct TraceReader::Impl {
  std::string file;
  std::variant<std::monostate, TraceChild, RunReader> source;
  TraceInfo info;
};

TraceReader::TraceReader(const fs::path& program, const fs::path& path, const ChildLimits& limits)
    : impl_(std::make_unique<Impl>()) {
  impl_->file = path.string();
  if (program.empty()) {
    impl_->info = impl_->source.emplace<RunReader>(path).valid().info;
  } else {
    impl_->info = impl_->source.emplace<TraceChild>(program, path, limits).info();
  }
}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

const TraceInfo& TraceReader::info() const { return impl_->info; }

TraceRows TraceReader::rows() {
  if (auto* child = std::get_if<TraceChild>(&impl_->source)) return child->rows();
  const ValidTrace& valid = std::get<RunReader>(impl_->source).valid();
  return {valid.extents, filled_of(valid)};
}

RunRecord TraceReader::load(int run_index, Slice* slice) {
  RunBlock block;
  if (auto* child = std::get_if<TraceChild>(&impl_->source)) {
    block = child->run(run_index);
  } else {
    auto& reader = std::get<RunReader>(impl_->source);
    block = reader.find(run_index);
    for (const auto& dataset : datasets_of(block.version)) reader.read(block, dataset);
  }
  if (slice) *slice = block.slice;
  return decode_run(std::move(block), impl_->info.model, impl_->file);
}

}  // namespace kvscope
