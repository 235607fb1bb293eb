#include "app/session/run_assembler.h"

#include <algorithm>
#include <utility>

#include "app/engine_client/engine_client.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app {
namespace {

// A copy of a long run of a large model takes milliseconds: at most ten a second, and at most a tenth of the time.
constexpr std::chrono::milliseconds kPublishInterval(100);
constexpr int kPublishShare = 10;

}  // namespace

void RunAssembler::begin(int request_id, RunRecord record) {
  const std::scoped_lock lock(record_mutex_);
  request_id_ = request_id;
  record_ = std::move(record);
  open_ = true;
  next_publish_ = {};
}

bool RunAssembler::take(const nlohmann::json& event) {
  const std::scoped_lock lock(record_mutex_);
  const std::string type = event.value("type", "");
  if (!open_ || (type != "ended" && event.value("id", -1) != request_id_)) return false;
  if (type == "ended") {
    finish_run(record_, RunStatus::failed, "the engine " + end_words(event.value("reason", "")));
    open_ = false;
    publish(true);
    return false;
  }
  try {
    protocol::apply_event(record_, event);
  } catch (const std::exception& error) {
    finish_run(record_, RunStatus::failed, std::string("the engine sent an unexpected event: ") + error.what());
    open_ = false;
    publish(true);
    const std::scoped_lock published_lock(published_mutex_);
    broken_ = record_.message;
    return true;
  }
  if (type == "done" || type == "error") open_ = false;
  // The first word of an answer is waited for.
  const bool answers = record_.n_tokens() == record_.prompt_len + 1;
  publish(!open_ || type == "started" || answers);
  return type == "started" || type == "step" || type == "oracle" || type == "output_error";
}

void RunAssembler::publish(bool now) {
  const auto start = std::chrono::steady_clock::now();
  held_back_ = !now && start < next_publish_;
  if (held_back_) return;
  auto copy = std::make_shared<const RunRecord>(record_);
  const auto cost = std::chrono::steady_clock::now() - start;
  next_publish_ = start + std::max<std::chrono::steady_clock::duration>(kPublishInterval, kPublishShare * cost);
  const std::scoped_lock lock(published_mutex_);
  published_ = Snapshot{request_id_, std::move(copy), ++revision_};
}

std::optional<RunAssembler::Snapshot> RunAssembler::take_snapshot() {
  // What was held back does not wait for the next event, which may be a second away.
  if (const std::unique_lock lock(record_mutex_, std::try_to_lock); lock && held_back_) publish(false);
  const std::scoped_lock lock(published_mutex_);
  return std::exchange(published_, std::nullopt);
}

std::optional<std::string> RunAssembler::take_broken() {
  const std::scoped_lock lock(published_mutex_);
  return std::exchange(broken_, std::nullopt);
}

}  // namespace kvscope::app
