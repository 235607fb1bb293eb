#pragma once
// Why a run cannot begin, and what would let it: beside the button, in the panel and in the palette alike.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvscope::app {

class Session;

/// One click: a command.
struct Remedy {
  std::string label;  // "Use 64"
  std::string command;
  nlohmann::json arguments = nlohmann::json::object();
};

struct Obstacle {
  std::string text;  // a sentence
  std::vector<Remedy> remedies = {};
  bool passes = false;  // by itself: the model is being loaded, a run goes on
};

enum class RunKind { start, decode_again, replay, replay_as_b };

/// In the order in which they are met; empty: the run can begin. Cheap enough for every frame.
std::vector<Obstacle> obstacles(const Session& session, RunKind kind);
/// Why nothing that goes on from A's tokens can be decoded: the open model is not A's. Empty: it is, or there is no A.
std::string why_not_of_a(const Session& session);
/// The first one's text; empty: none.
std::string why_not(const Session& session, RunKind kind);

}  // namespace kvscope::app
