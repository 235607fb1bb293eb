#include "engine/core/protocol/recording.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "engine/core/policy/policy_text.h"
#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/engine_offer.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/fields.h"
#include "engine/core/support/file.h"

namespace kvscope::protocol {
namespace {

using nlohmann::json;

constexpr std::string_view kStream = "engine stream";  // what a Channel calls its file

/// The messages of a file, one after the other.
class Recording {
 public:
  Recording(int fd, std::uint64_t size, const RecordingProgress& progress)
      : size_(size), channel_(fd, -1), progress_(progress) {}

  /// The next message. Throws Error if there is none, or if it is of another type than `expected`, which may be empty.
  json next(std::string_view expected) {
    std::optional<json> message = read();
    if (!message) fail("the end of the file", expected.empty() ? "done" : std::string(expected));
    const std::string type = text(*message, "type");
    if (!expected.empty() && type != expected) fail("a message " + in_quotes(type), std::string(expected));
    return *std::move(message);
  }
  void check_end() {
    if (read()) fail("a message after the end of the run", "one run");
  }
  /// Says at which message of the file the reader is.
  std::string place() const { return "message " + std::to_string(n_messages_); }
  bool at_first() const { return n_messages_ <= 1; }

 private:
  std::optional<json> read() {
    ++n_messages_;
    std::optional<json> message = channel_.read();
    if (!message) return message;
    check_event(*message);
    read_ += channel_.last_read_bytes() + 4;
    if (progress_) progress_(read_, size_);
    return message;
  }
  [[noreturn]] static void fail(std::string found, std::string expected) {
    throw Error({.found = std::move(found), .expected = std::move(expected)});
  }

  std::uint64_t size_, read_ = 0;
  Channel channel_;
  RecordingProgress progress_;
  std::int64_t n_messages_ = 0;
};

EngineOffer offer_of(Recording& recording) {
  const json hello = recording.next("hello");
  const std::int64_t protocol = integer(hello, "version", 0, 1'000'000);
  if (protocol != kVersion)
    bad_field(hello, "version", std::to_string(protocol), std::to_string(kVersion) + ", that of this program");
  const std::int64_t version = integer(hello, "recording", 0, 1'000'000);
  if (version != kRecordingVersion)
    bad_field(hello, "recording", std::to_string(version),
              std::to_string(kRecordingVersion) + ", that of this program");
  if (text_or_empty(hello, "name").empty())
    bad_field(hello, "name", "nothing", "who recorded the run, with a version: \"my-loop 0.3\"");
  return offer_of_hello(hello);
}

/// What the run was recorded under: a declaration of the recording, or one of KVScope's policies by its name.
PolicySpec policy_of_run(const json& started, const EngineOffer& offer) {
  const std::string policy = text(started, "policy");
  const std::string name = policy.substr(0, policy.find(':'));
  const auto own = std::ranges::find(offer.policies, name, [](const DeclaredPolicy* p) { return p->declaration.name; });
  return PolicySpec::parse(policy, own == offer.policies.end() ? nullptr : *own);
}

RunRecord read_run(Recording& recording) {
  const EngineOffer greeting = offer_of(recording);
  const json load = recording.next("done");
  RunRecord run;
  run.model = model_from_event(load);
  const EngineOffer offer = offer_of_load(greeting, load, run.model.n_layers);
  run.recorder = offer.name;
  const json started = recording.next("started");
  run.policy = policy_of_run(started, offer);
  apply_event(run, started);
  for (std::int32_t i = 0; i < run.prompt_len; ++i) run.prompt_text += run.pieces[static_cast<std::size_t>(i)];
  const int id = message_id(started);
  while (run.status == RunStatus::running) {
    const json event = recording.next("");
    if (message_id(event) != id)
      bad_field(event, "id", std::to_string(message_id(event)), std::to_string(id) + ", as of the run's start");
    apply_event(run, event);
  }
  recording.check_end();
  return run;
}

}  // namespace

RunRecord read_recording(int fd, const std::filesystem::path& path, std::uint64_t size,
                         const RecordingProgress& progress) {
  Recording recording(fd, size, progress);
  try {
    return read_run(recording);
  } catch (const Error& error) {
    if (error.code() == ExitCode::cancelled) throw;
    Error::Parts parts = error.parts();
    if (recording.at_first() && parts.file == kStream) {  // its first bytes are no message
      throw Error({.file = path.string(),
                   .found = "not a recording",
                   .expected = "a .kvs or .npz file",
                   .hint = "docs/protocol.md describes both"});
    }
    std::string where = recording.place();
    for (const std::string& part : {parts.file, parts.where})
      if (!part.empty() && part != kStream) where += ", " + part;
    throw Error({.file = path.string(),
                 .where = std::move(where),
                 .found = std::move(parts.found),
                 .expected = std::move(parts.expected),
                 .hint = std::move(parts.hint)});
  }
}

RunRecord read_recording(const std::filesystem::path& path, const RecordingProgress& progress) {
  std::uint64_t size = 0;
  const FileHandle file = open_regular_file(path, size);
  return read_recording(file.get(), path, size, progress);
}

}  // namespace kvscope::protocol
