#include "engine/core/trace/trace_message.h"

#include "engine/core/record/run_fields.h"
#include "engine/core/trace/trace_layout.h"
#include "engine/core/trace/trace_validate.h"

namespace kvscope::trace {

namespace {

void put_model(MessageWriter& out, const ModelInfo& model) {
  visit_fields(model, [&](auto, const auto& value, auto) { out.put(value); });
}

ModelInfo get_model(MessageReader& in) {
  ModelInfo model;
  visit_fields(model, [&](auto, auto& value, auto) { in.get(value); });
  return model;
}

}  // namespace

void put_error(MessageWriter& out, const Error::Parts& parts) {
  out.put(static_cast<int>(parts.code));
  for (const auto* text : {&parts.file, &parts.where, &parts.found, &parts.expected, &parts.hint}) out.put(*text);
}

[[noreturn]] void throw_sent_error(MessageReader& in) {
  Error::Parts parts;
  const int code = in.get<int>();
  if (code < static_cast<int>(ExitCode::usage) || code > static_cast<int>(ExitCode::internal)) throw BadMessage{};
  parts.code = static_cast<ExitCode>(code);
  for (auto* text : {&parts.file, &parts.where, &parts.found, &parts.expected, &parts.hint}) *text = in.text();
  if (parts.found.empty()) throw BadMessage{};
  throw Error(std::move(parts));
}

void put_info(MessageWriter& out, const TraceInfo& info) {
  out.put(info.version);
  out.put(info.status);
  put_model(out, info.model);
  visit_fields(info.capture, [&](auto, const auto& value) { out.put(value); });
  out.put(info.n_runs);
  out.put(info.planned_runs);
  for (const auto index : info.prompt_index) out.put(index);
  out.put(static_cast<int>(info.cut_runs.size()));
  for (const int run : info.cut_runs) out.put(run);
  out.put(static_cast<int>(info.shards.size()));
  for (const auto& shard : info.shards) out.put(shard);
  out.put(info.created_by);
  out.put(info.git_revision);
  out.put(info.page_reads);
  out.put(info.changed_runs);
}

TraceInfo get_info(MessageReader& in) {
  TraceInfo info;
  info.version = in.get<int>();
  info.status = in.text();
  info.model = get_model(in);
  CaptureInfo& capture = info.capture;
  visit_fields(capture, [&](auto, auto& value) { in.get(value); });
  if (capture.n_prompts < 0 || capture.shard < 0 || capture.shard >= capture.n_shards) throw BadMessage{};
  info.n_runs = in.get<int>();
  info.planned_runs = in.get<int>();
  if (info.n_runs < 0 || info.planned_runs < 0) throw BadMessage{};
  for (int i = 0; i < info.n_runs; ++i) info.prompt_index.push_back(in.get<std::int32_t>());
  for (int n = in.get<int>(); n > 0; --n) {
    info.cut_runs.push_back(in.get<int>());
    if (info.cut_runs.back() < 0 || info.cut_runs.back() >= info.n_runs) throw BadMessage{};
  }
  for (int n = in.get<int>(); n > 0; --n) info.shards.emplace_back(in.text());
  info.created_by = in.text();
  info.git_revision = in.text();
  info.page_reads = in.get<std::int64_t>();
  info.changed_runs = in.get<int>();
  return info;
}

void put_run(MessageWriter& out, const RunBlock& block) {
  out.put(block.run);
  out.put(block.version);
  for (int axis = 0; axis < kAxes; ++axis) {
    out.put(block.slice.begin.size[axis]);
    out.put(block.slice.count.size[axis]);
  }
}

RunBlock get_run(MessageReader& in) {
  RunBlock block;
  block.run = in.get<int>();
  block.version = in.get<int>();
  if (block.version < 1 || block.version > kVersion) throw BadMessage{};
  for (int axis = 0; axis < kAxes; ++axis) {
    block.slice.begin.size[axis] = in.get<std::int64_t>();
    auto& count = block.slice.count.size[axis] = in.get<std::int64_t>();
    // Keeps every product of three counts and an element size within what a double counts without overflow.
    if (count < 0 || count > kMaxRunBytes) throw BadMessage{};
  }
  if (run_bytes(block) > static_cast<double>(kMaxRunBytes)) throw BadMessage{};
  return block;
}

void put_rows(MessageWriter& out, const TraceRows& rows) {
  for (int axis = 0; axis < kAxes; ++axis) {
    out.put(rows.extents.size[axis]);
    out.put(rows.filled.size[axis]);
  }
}

TraceRows get_rows(MessageReader& in) {
  TraceRows rows;
  for (int axis = 0; axis < kAxes; ++axis) {
    const auto extent = rows.extents.size[axis] = in.get<std::int64_t>();
    const auto filled = rows.filled.size[axis] = in.get<std::int64_t>();
    if (filled < 0 || filled > extent) throw BadMessage{};
  }
  return rows;
}

}  // namespace kvscope::trace
