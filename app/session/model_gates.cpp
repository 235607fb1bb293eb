#include "app/session/model_gates.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include "engine/core/files/gate/gate_name.h"

namespace kvscope::app {

void ModelGates::look(const std::string& model_path, const std::vector<std::string>& given) {
  if (model_path != model_path_) found_.clear(), known_ = false;
  model_path_ = model_path;
  const auto take = [this, model_path](std::vector<GateFacts> read) {
    if (model_path != model_path_) return;
    found_ = std::move(read);
    known_ = true;
    revision_.rise();
    on_found_();
  };
  background_.post(
      [take, model_path, given]() -> Worker::Finish {
        auto read = std::make_shared<std::vector<GateFacts>>();
        std::error_code error;
        if (std::filesystem::is_directory(model_path, error)) {
          std::vector<KnownGate> gates = known_gates(model_path);
          for (auto path = given.rbegin(); path != given.rend(); ++path) {
            const std::filesystem::path given_path(*path);
            if (std::ranges::find(gates, given_path, &KnownGate::path) != gates.end()) continue;
            gates.insert(gates.begin(), {gate_name(given_path), given_path, KnownGate::Origin::shipped});
          }
          std::ranges::copy(builtin_gates(), std::back_inserter(gates));
          for (const KnownGate& gate : gates) read->push_back(read_gate(gate, model_path));
        }
        return [take, read] { take(std::move(*read)); };
      },
      [take](const std::string&) {
        take({});
      });  // what is wrong with a model's folder the engine says; a run waits for it
}

void ModelGates::add(const GateFacts& gate) {
  std::erase_if(found_, [&](const GateFacts& other) { return other.gate.path == gate.gate.path; });
  found_.insert(found_.begin(), gate);
  revision_.rise();
}

const GateFacts* ModelGates::find(const std::string& name) const {
  const auto found = std::ranges::find_if(found_, [&](const GateFacts& facts) { return facts.gate.name == name; });
  return found == found_.end() ? nullptr : &*found;
}

const GateFacts* ModelGates::used_by(const PolicySpec& policy, const std::vector<std::string>& given) const {
  for (const std::string& path : given) {
    const auto found = std::ranges::find_if(found_, [&](const GateFacts& facts) { return facts.gate.path == path; });
    if (found != found_.end() && reads_gate(policy, found->kind)) return &*found;
  }
  const auto beside = std::ranges::find_if(found_, [&](const GateFacts& facts) {
    return facts.gate.origin == KnownGate::Origin::model && facts.fits() && reads_gate(policy, facts.kind);
  });
  return beside == found_.end() ? nullptr : &*beside;
}

const GateFacts* ModelGates::first_for(const PolicySpec& policy) const {
  const auto found = std::ranges::find_if(found_, [&](const GateFacts& facts) {
    return facts.gate.origin != KnownGate::Origin::builtin && facts.fits() && facts.adapter.empty() &&
           reads_gate(policy, facts.kind);
  });
  return found == found_.end() ? nullptr : &*found;
}

std::vector<std::string> ModelGates::with(const GateFacts& gate, std::vector<std::string> given) const {
  std::erase_if(given, [&](const std::string& path) {
    return std::ranges::any_of(found_, [&](const GateFacts& other) {
      const bool clash = !gate.adapter.empty() || !other.adapter.empty();  // trained for other weights
      return other.gate.path == path && (other.kind == gate.kind || clash);
    });
  });
  given.insert(given.begin(), gate.gate.path.string());
  return given;
}

}  // namespace kvscope::app
