// A conversation: messages one after the other, each with its length before it. Each is read as a request, and applied as
// an event to the record of a run.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/requests.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file.h"
#include "tests/fuzz/conversation.h"
#include "tests/fuzz/format.h"

namespace kvscope::fuzz {
namespace {

/// Refusing is right, and does not end the conversation.
template <typename Use>
void use(const Use& what) {
  try {
    what();
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal) throw;
  }
}

/// The run of a conversation is over the model that was loaded in it. One of a shape that would take long is not looked at.
void take_model(RunRecord& run, const ModelInfo& model) {
  if (model.n_layers < 1 || model.n_kv_heads < 1 || model.n_layers > 16 || model.n_kv_heads > 16) return;
  run = {};
  run.model = model;
}

}  // namespace

RunRecord run_of_messages(std::string_view bytes) {
  const FileHandle file(::memfd_create("messages", MFD_CLOEXEC));
  if (::write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
  ::lseek(file.get(), 0, SEEK_SET);
  Channel channel(file.get(), -1);
  RunRecord run;
  run.model = {.architecture = "Qwen3ForCausalLM", .dtype = "float32", .device = "cpu"};
  run.model.n_layers = 2, run.model.n_kv_heads = 3, run.model.n_heads = 6, run.model.head_dim = 64;
  run.model.vocab_size = 5000, run.model.max_positions = 8192;
  while (const auto message = channel.read()) {
    use([&] { protocol::request_from_json(*message); });
    protocol::error_from_event(*message);
    use([&] {
      protocol::check_event(*message);
      use([&] { protocol::apply_event(run, *message); });
      use([&] { protocol::score_from_event(*message); });
      use([&] { protocol::doctor_checks_from_event(*message); });
      use([&] { take_model(run, protocol::model_from_event(*message)); });
      use([&] { protocol::gates_from_event(*message); });
    });
  }
  return run;
}

namespace {

const Registration registration("cbor", [](std::string_view bytes) { run_of_messages(bytes); });

}  // namespace
}  // namespace kvscope::fuzz
