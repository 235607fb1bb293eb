#include "app/control/requests.h"

#include <algorithm>
#include <utility>

#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

constexpr double kDefaultTimeout = 30, kMaxTimeout = 1e6;  // seconds
// Of a frame. 64 clients may have 64 requests each, and the window must be drawn and must end all the same.
constexpr std::chrono::milliseconds kPerCall(8);

json failure(const std::string& text) { return {{"ok", false}, {"error", text}}; }

bool condition_holds(const json& condition, const json* value) {
  if (!condition.is_object()) return value ? *value == condition : condition.is_null();
  for (const auto& [kind, wanted] : condition.items()) {
    if (kind == "at_least") {
      if (!value || !value->is_number() || value->get<double>() < wanted.get<double>()) return false;
    } else if (kind == "contains") {
      if (!value || value->dump().find(wanted.get<std::string>()) == std::string::npos) return false;
    } else if (kind == "not") {
      if (value ? *value == wanted : wanted.is_null()) return false;
    } else {
      throw Error({.code = ExitCode::usage, .file = "until", .found = kind, .expected = "at_least, contains or not"});
    }
  }
  return true;
}

}  // namespace

bool holds(const json& until, const json& state) {
  if (!until.is_object())
    throw Error({.code = ExitCode::usage, .file = "until", .found = "not an object of conditions"});
  for (const auto& [pointer, condition] : until.items()) {
    const json::json_pointer path(pointer);
    if (!condition_holds(condition, state.contains(path) ? &state[path] : nullptr)) return false;
  }
  return true;
}

void Requests::add(json request, Reply reply, int client) {
  double timeout = kDefaultTimeout;
  if (request.is_object() && request.contains("timeout") && request["timeout"].is_number())
    timeout = std::clamp(request["timeout"].get<double>(), 0.0, kMaxTimeout);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<long>(timeout * 1000));
  pending_.push_back({std::move(request), std::move(reply), client, deadline, nullptr});
}

void Requests::drop(int client) {
  std::erase_if(pending_, [client](const Pending& pending) {
    const bool is_to_do =
        pending.request.is_object() && pending.request.contains("command") && pending.answer.is_null();
    return pending.client == client && !is_to_do;
  });
}

const json& Requests::state() {
  if (!state_) state_ = host_.state();
  return *state_;
}

void Requests::serve() {
  state_.reset();
  const auto end = std::chrono::steady_clock::now() + kPerCall;
  // What waits on goes to the end of the line, so that the next call goes on where this one stopped. A reply may add the next
  // request of a script.
  for (std::size_t left = pending_.size(); left > 0; --left) {
    Pending pending = std::move(pending_.front());
    pending_.pop_front();
    bool done;
    try {
      done = serve(pending);
    } catch (const std::exception& error) {
      pending.reply(failure(error.what()));
      done = true;
    }
    if (!done) pending_.push_back(std::move(pending));
    if (std::chrono::steady_clock::now() >= end) return;
  }
}

bool Requests::serve(Pending& pending) {
  const json& request = pending.request;
  if (!request.is_object()) throw Error({.code = ExitCode::usage, .file = "request", .found = "not an object"});
  if (request.contains("command")) {
    if (pending.answer.is_null()) {
      state_.reset();
      json result = host_.execute(request["command"].get<std::string>(), request.value("args", json::object()));
      pending.answer = {{"ok", true}, {"result", std::move(result)}};
    }
    if (host_.busy()) {
      if (!host_.give_up || std::chrono::steady_clock::now() < pending.deadline) return false;
      host_.give_up();
      throw Error({.file = request["command"].get<std::string>(), .found = "timed out waiting for views that compute"});
    }
    pending.reply(pending.answer);
    return true;
  }
  const std::string query = request.value("query", "");
  if (query == "wait") {
    if (holds(request.at("until"), state())) {
      pending.reply({{"ok", true}});
      return true;
    }
    if (std::chrono::steady_clock::now() < pending.deadline) return false;
    throw Error({.file = "wait", .found = "timed out waiting for " + request["until"].dump()});
  }
  json answer = {{"ok", true}};
  if (query == "state") {
    answer["state"] = state();
  } else if (query == "item") {
    answer["rect"] = host_.item(request.at("id").get<std::string>());
  } else if (query == "text") {
    answer["text"] = host_.text(request.at("id").get<std::string>());
  } else if (query == "items") {
    answer["items"] = host_.items();
  } else if (query == "commands") {
    answer["commands"] = host_.commands();
  } else {
    throw Error({.code = ExitCode::usage,
                 .file = "query",
                 .found = "'" + query + "'",
                 .expected = "state, item, text, items, commands or wait"});
  }
  pending.reply(answer);
  return true;
}

}  // namespace kvscope::app
