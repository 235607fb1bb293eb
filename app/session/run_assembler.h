#pragma once
// The run in progress: events are applied on the engine reader's thread, the window draws immutable copies.

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "engine/core/record/run_record.h"

namespace kvscope::app {

class RunAssembler {
 public:
  struct Snapshot {
    int request_id = -1;
    std::shared_ptr<const RunRecord> run;
    std::uint64_t revision = 0;
  };

  /// From now on events of that request go into `record`. Call before the request is sent.
  void begin(int request_id, RunRecord record);
  /// Reader's thread. True if the event is used up here: started, step and oracle of this request. `done`, `error` and
  /// `ended` are applied too (the record fails with their reason) and left for others to see. An event that does not
  /// fit the record fails the run and is replaced by `broken`'s text.
  bool take(const nlohmann::json& event);
  /// The newest copy, if there is one that was not taken yet.
  std::optional<Snapshot> take_snapshot();
  /// Set once an event did not fit; the caller cancels the request.
  std::optional<std::string> take_broken();

 private:
  void publish(bool now);

  std::mutex record_mutex_;
  int request_id_ = -1;
  bool open_ = false;
  RunRecord record_;
  std::uint64_t revision_ = 0;
  std::chrono::steady_clock::time_point next_publish_{};
  bool held_back_ = false;  // events are applied that no copy has

  std::mutex published_mutex_;  // held for a pointer's copy only, so that drawing never waits
  std::optional<Snapshot> published_;
  std::optional<std::string> broken_;
};

}  // namespace kvscope::app
