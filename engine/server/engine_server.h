#pragma once
// The engine's side of the conversation that engine/core/protocol/protocol.h defines.

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/requests.h"
#include "engine/decode/generation.h"
#include "engine/server/request_queue.h"

namespace kvscope::engine {

/// Serves requests one after the other on the calling thread until `quit` or the end of the stream. Whatever a request
/// throws is told to the client as an `error` event, and the next request is served.
class EngineServer {
 public:
  explicit EngineServer(Channel& channel) : channel_(channel) {}

  /// Greets, serves, returns the exit code. Throws Error (resource) when the client is gone in the middle of an answer.
  /// To be called once. Destroying the server waits for the end of the input stream.
  int serve();

 private:
  bool answer(const nlohmann::json& request);
  void serve(const protocol::LoadRequest& request, int id);
  void serve(const RunRequest& request, int id);
  void serve(const ScoreRequest& request, int id);
  void serve(const TokenAttentionRequest& request, int id);
  void serve(const GateScoresRequest& request, int id);
  void serve(const protocol::JobRequest& request, int id);
  void serve(const protocol::DoctorRequest& request, int id);
  /// policy, cancel and quit are heard by the queue.
  template <typename Heard>
  void serve(const Heard&, int) {}
  const LoadedModel& model() const;
  Hooks hooks(int id);

  /// What the loaded model was loaded from; the same again is not read again.
  struct Loaded {
    std::filesystem::path path;
    LoadOptions options;
    std::filesystem::file_time_type written;  // newest file of the folder: training may have replaced it
    bool operator==(const Loaded&) const = default;
  };

  Channel& channel_;
  std::unique_ptr<RequestQueue> requests_;  // made by serve()
  std::optional<LoadedModel> model_;
  Loaded loaded_;
};

}  // namespace kvscope::engine
