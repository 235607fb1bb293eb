#pragma once
// The engine's side of the conversation that engine/core/protocol/protocol.h defines.

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/message_writer.h"
#include "engine/core/protocol/requests.h"
#include "engine/decode/run_batch.h"
#include "engine/server/request_queue.h"

namespace kvscope::engine {

/// Serves requests on the calling thread until `quit` or the end of the stream: runs that follow each other several at
/// once, all others one after the other. What a request throws goes to the client as an `error` event, and the others
/// are served.
class EngineServer {
 public:
  explicit EngineServer(Channel& channel) : channel_(channel), out_(channel) {}

  /// Greets, serves, returns the exit code. Throws Error (resource) when the client is gone in the middle of an answer.
  /// To be called once. Destroying the server waits for the end of the input stream.
  int serve();

 private:
  /// serve(), but for the last messages, which may not be written yet.
  int answer_all();
  /// One request that is no run. What answers a request returns whether another can be served.
  bool answer(ServedRequest& request);
  /// A run, and those that come while runs go on.
  bool answer_runs(std::shared_ptr<ServedRequest> first);
  std::optional<BatchedRun> batched(std::shared_ptr<ServedRequest> request, bool& goes_on);
  bool tell_failure(int id, const std::exception_ptr& error);
  void serve(const protocol::LoadRequest& request, ServedRequest& served);
  void serve(const ScoreRequest& request, ServedRequest& served);
  void serve(const TokenAttentionRequest& request, ServedRequest& served);
  void serve(const QueryAttentionRequest& request, ServedRequest& served);
  void serve(const GateScoresRequest& request, ServedRequest& served);
  void serve(const protocol::JobRequest& request, ServedRequest& served);
  void serve(const protocol::DoctorRequest& request, ServedRequest& served);
  /// Runs have gone to answer_runs(); policy, cancel and quit are heard by the queue.
  template <typename Heard>
  void serve(const Heard&, ServedRequest&) {}
  const LoadedModel& model() const;
  Hooks hooks(const ServedRequest& request);
  RunSink sink(const std::shared_ptr<ServedRequest>& request);

  /// What the loaded model was loaded from; the same again is not read again.
  struct Loaded {
    std::filesystem::path path;
    LoadOptions options;
    std::filesystem::file_time_type written;  // newest file of the folder: training may have replaced it
    bool operator==(const Loaded&) const = default;
  };

  Channel& channel_;
  MessageWriter out_;
  std::unique_ptr<RequestQueue> requests_;  // made by serve()
  std::optional<LoadedModel> model_;
  Loaded loaded_;
};

}  // namespace kvscope::engine
