#pragma once
// A suite that any engine can be run against: does it keep the protocol, and are its numbers what they claim to be?

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "app/conformance/checks.h"
#include "app/engine_client/engine_client.h"

namespace kvscope::app {

struct ConformanceOptions {
  std::string engine;              // a shell command; empty: kvscope-engine beside this program
  std::string model;               // a folder, or what the engine takes for one
  std::vector<std::string> gates;  // paths, loaded with the model
  std::string device = "auto", dtype = "auto";
  std::chrono::milliseconds patience = default_patience();  // of one request between two events; negative: without end
};

/// Runs all checks and returns their results, in order. `on_check` sees each one as it ends. An engine that ends or no longer
/// answers ends the suite: its last check fails and says so.
std::vector<conformance::Check> check_conformance(const ConformanceOptions& options,
                                                  const std::function<void(const conformance::Check&)>& on_check = {});

}  // namespace kvscope::app
