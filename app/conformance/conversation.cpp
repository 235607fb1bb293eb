#include "app/conformance/conversation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/conformance/checks.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/support/text.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr milliseconds kPoll(50);
constexpr milliseconds kSettle(5);       // a second answer comes together with the first one
constexpr milliseconds kAbandon(2'000);  // for a request that failed to end after a cancel
constexpr int kWholeOfPatience = 10;
constexpr int kMostUnanswered = 3;  // in a row, then the engine is given up

std::string type_of(const json& event) {
  const auto type = event.find("type");
  return type != event.end() && type->is_string() ? type->get<std::string>() : std::string();
}

bool ends_request(const json& event) { return type_of(event) == "done" || type_of(event) == "error"; }

std::string seconds_text(milliseconds time) { return number_text(static_cast<double>(time.count()) / 1000) + " s"; }

}  // namespace

std::string error_text(const json& event) { return protocol::error_from_event(event).what(); }

Conversation::Conversation(const std::string& command, milliseconds patience)
    : client_({.command = command, .patience = patience}), patience_(patience) {}

json Conversation::first_message() {
  while (true) {
    if (auto event = next_event(kPoll)) return *event;
  }
}

/// The client's own event of the end is EndOfSuite. Its patience with the first message and with torn ones is there already.
std::optional<json> Conversation::next_event(milliseconds wait) {
  auto event = client_.wait_event(wait);
  if (!event || type_of(*event) != "ended") return event;
  const EngineEnd end = EngineEnd::read(*event);
  throw EndOfSuite("the engine " + end_words(end.reason) +
                   (end.said.empty() ? "" : "; its last message: " + end.said.back()));
}

std::string Conversation::name_of(int id) const {
  const auto type = types_.find(id);
  return "request " + std::to_string(id) + (type == types_.end() ? "" : " (" + type->second + ")");
}

/// Whether the event is one of `id`. Lines for the log need no request.
bool Conversation::belongs(const json& event, int id) const {
  const std::string type = type_of(event);
  require(!type.empty(), "an event without a type");
  const int found = protocol::message_id(event);
  if (found == id) return true;
  if (found < 0) {
    require(type != "error", "an error that belongs to no request: " + error_text(event));
    require(type == "log" || type == "warning" || type == "progress", "an event " + type + " without an id");
    return false;
  }
  if (abandoned_.contains(found)) return false;
  require(types_.contains(found), "an event " + type + " with the unknown id " + std::to_string(found));
  if (types_.at(found) == "cancel" || types_.at(found) == "policy")
    throw Failure("an event " + type + " of " + name_of(found) + ", which has no answer");
  throw Failure((type == "done" ? "a second event done" : "an event " + type) + " of " + name_of(found) +
                ", which had ended");
}

int Conversation::send(json& message) {
  const int id = client_.next_id();
  message["id"] = id;
  types_[id] = type_of(message);
  client_.send(message);
  return id;
}

json Conversation::ask(json message, const Handler& handler) {
  if (n_unanswered_ >= kMostUnanswered)
    throw EndOfSuite("the engine left " + std::to_string(n_unanswered_) + " requests without an answer");
  current_ = send(message);
  try {
    json last = wait_for_end(current_, handler);
    n_unanswered_ = 0;
    settle();
    return last;
  } catch (const EndOfSuite&) {
    throw;
  } catch (...) {
    abandon(current_);
    throw;
  }
}

void Conversation::check_patience(Clock::time_point start, Clock::time_point last_event,
                                  const std::string& name) const {
  if (patience_.count() < 0) return;
  const auto now = Clock::now();
  require(now - last_event < patience_,
          "no event for " + seconds_text(patience_) + ": " + name + " has no done and no error");
  require(now - start < kWholeOfPatience * patience_,
          name + " has not ended after " + seconds_text(kWholeOfPatience * patience_));
}

json Conversation::wait_for_end(int id, const Handler& handler) {
  json last;
  wait_for_ends({id}, [&](std::size_t, const json& event) {
    last = event;
    if (handler) handler(event);
  });
  return last;
}

void Conversation::wait_for_ends(const std::vector<int>& ids, const HandlerOfMany& handler) {
  const auto start = Clock::now();
  auto last_event = start;
  std::set<int> open(ids.begin(), ids.end());
  while (!open.empty()) {
    const auto event = next_event(kPoll);
    if (event) last_event = Clock::now();
    check_patience(start, last_event, name_of(*open.begin()));
    if (!event) continue;
    const int found = protocol::message_id(*event);
    if (!belongs(*event, open.contains(found) ? found : *open.begin())) continue;
    if (ends_request(*event)) {
      ended_.insert(found);
      open.erase(found);
    }
    handler(static_cast<std::size_t>(std::ranges::find(ids, found) - ids.begin()), *event);
  }
}

void Conversation::done_together(std::vector<json> messages, const HandlerOfMany& handler) {
  std::vector<int> ids;
  for (json& message : messages) ids.push_back(send(message));
  try {
    wait_for_ends(ids, [&](std::size_t place, const json& event) {
      require(type_of(event) != "error", name_of(ids[place]) + " ended in an error: " + error_text(event));
      handler(place, event);
    });
    settle();
  } catch (const EndOfSuite&) {
    throw;
  } catch (...) {
    for (const int id : ids) abandon(id);
    throw;
  }
}

void Conversation::settle() {
  while (const auto event = next_event(kSettle)) belongs(*event, -2);
}

/// What still comes of it is passed over. It is cancelled, so that the next request need not wait for it.
void Conversation::abandon(int id) {
  abandoned_.insert(id);
  if (ended_.contains(id)) return;
  json cancel = protocol::to_json(protocol::CancelRequest{id}, 0);
  send(cancel);
  const milliseconds wait = patience_.count() < 0 ? kAbandon : std::min(patience_, kAbandon);
  for (const auto end = Clock::now() + wait; Clock::now() < end;) {
    const auto event = next_event(kPoll);
    if (event && protocol::message_id(*event) == id && ends_request(*event)) {
      ended_.insert(id);
      return;
    }
  }
  ++n_unanswered_;
}

json Conversation::done(json message, const Handler& handler) {
  json last = ask(std::move(message), handler);
  require(type_of(last) == "done", name_of(current_) + " ended in an error: " + error_text(last));
  return last;
}

json Conversation::done(const protocol::Request& request, const Handler& handler) {
  return done(protocol::to_json(request, 0), handler);
}

Error Conversation::refused(json message, const std::string& what) {
  const json last = ask(std::move(message));
  require(type_of(last) == "error", what + " was answered with done; expected one error");
  const auto found = last.find("found");
  require(found != last.end() && found->is_string() && !found->get<std::string>().empty(),
          what + ": an error without words: its field found is empty");
  for (const char* field : {"file", "where", "found", "expected", "hint"}) {
    const auto value = last.find(field);
    if (value == last.end()) continue;
    require(value->is_string() && value->get<std::string>().find('\n') == std::string::npos,
            what + ": the field " + field + " of the error is not one line");
  }
  const auto code = last.find("code");
  require(code != last.end() && code->is_number_integer() && code->get<int>() >= 1 && code->get<int>() <= 4,
          what + ": an error without a code from 1 to 4");
  return protocol::error_from_event(last);
}

std::string Conversation::quit() {
  json message = protocol::to_json(protocol::QuitRequest{}, 0);
  send(message);
  const auto start = Clock::now();
  while (true) {
    const auto event = client_.wait_event(kPoll);
    if (event && type_of(*event) == "ended") return EngineEnd::read(*event).reason;
    require(patience_.count() < 0 || Clock::now() - start < patience_,
            "the engine has not ended " + seconds_text(patience_) + " after quit");
  }
}

void Conversation::steer(const protocol::Request& request) {
  json message = protocol::to_json(request, 0);
  send(message);
}

}  // namespace kvscope::app::conformance
