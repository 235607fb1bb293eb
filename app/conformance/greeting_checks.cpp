// The greeting and the load of a model.

#include <unistd.h>

#include <optional>

#include "app/conformance/check_groups.h"
#include "engine/core/files/weights/model_config.h"
#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/events.h"
#include "engine/core/protocol/protocol.h"

namespace kvscope::app::conformance {
namespace {

using nlohmann::json;

std::string count_text(std::size_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + " " + (n == 1 ? one : many);
}

std::string offer_in_words(const protocol::EngineOffer& offer) {
  std::string text = offer.serves ? count_text(offer.serves->size(), "service", "services") : "all services";
  text += offer.builtin_policies
              ? ", " + count_text(offer.builtin_policies->size(), "policy", "policies") + " of KVScope's"
              : ", all of KVScope's policies";
  return text + ", " + count_text(offer.policies.size(), "declared policy", "declared policies");
}

/// What config.json has where this machine can read it and KVScope knows the family; null otherwise.
std::optional<ModelConfig> config_of(const std::string& model) {
  try {
    return ModelConfig::load(model);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_number(const std::string& name, int found, int of_config) {
  require(found == of_config,
          "load: " + name + " is " + std::to_string(found) + "; config.json has " + std::to_string(of_config));
}

void check_model(const ModelInfo& model, const ConformanceOptions& options) {
  require(model.n_heads % model.n_kv_heads == 0, "load: " + std::to_string(model.n_heads) +
                                                     " query heads are no multiple of " +
                                                     std::to_string(model.n_kv_heads) + " KV heads");
  for (const auto& [name, text] : {std::pair("name", model.name),
                                   {"dtype", model.dtype},
                                   {"device", model.device},
                                   {"architecture", model.architecture},
                                   {"weights_hash", model.weights_hash}})
    require(!text.empty(), std::string("load: the model has an empty ") + name);
  const auto config = config_of(options.model);
  if (!config) return;
  check_number("n_layers", model.n_layers, config->n_layers);
  check_number("n_heads", model.n_heads, config->n_heads);
  check_number("n_kv_heads", model.n_kv_heads, config->n_kv_heads);
  check_number("head_dim", model.head_dim, config->head_dim);
  check_number("vocab_size", model.vocab_size, config->vocab_size);
  check_number("max_positions", model.max_positions, config->max_positions);
}

std::string load(Subject& subject) {
  const json last = subject.talk.done(subject.load_request(subject.options.model));
  subject.model = protocol::model_from_event(last);
  subject.gates = protocol::gates_from_event(last);
  subject.offer = protocol::offer_of_load(subject.greeting.offer, last, subject.model.n_layers);
  const auto seconds = last.find("load_s");
  require(seconds != last.end() && seconds->is_number() && seconds->get<double>() >= 0,
          "load: load_s is no number of seconds");
  check_model(subject.model, subject.options);
  return subject.model.name + ": " + std::to_string(subject.model.n_layers) + " layers, " +
         std::to_string(subject.model.n_kv_heads) + " KV heads, " + subject.model.dtype + ", " + subject.model.device;
}

std::string load_nowhere(Subject& subject) {
  const std::string path = "/no-such-folder/" + std::to_string(::getpid());
  const Error error = subject.talk.refused(protocol::to_json(protocol::Request(subject.load_request(path)), 0),
                                           "a load of a folder that does not exist");
  return std::string("one error: ") + error.what();
}

std::string load_again(Subject& subject) {
  const json last = subject.talk.done(subject.load_request(subject.options.model));
  const json before = protocol::to_json(subject.model), now = protocol::to_json(protocol::model_from_event(last));
  for (const auto& [name, value] : before.items())
    require(now.at(name) == value,
            "the same model loaded again: " + name + " is " + now.at(name).dump() + ", not " + value.dump());
  return "the same model as before";
}

}  // namespace

void check_greeting(Checks& checks, Subject& subject) {
  const bool greeted = checks.check("greeting", [&] {
    try {
      subject.greeting = EngineGreeting::read(subject.talk.first_message());
      subject.greeting.check_version();
    } catch (const Error& error) {
      throw EndOfSuite(error.what());
    }
    subject.offer = subject.greeting.offer;
    require(!subject.greeting.engine.empty(), "greeting: no name");
    return subject.greeting.engine + ": " + offer_in_words(subject.offer);
  });
  if (!greeted) throw EndOfSuite("no greeting");
}

void check_load(Checks& checks, Subject& subject) {
  checks.check("load: a path that does not exist", [&] { return load_nowhere(subject); });
  checks.check("load: the model", [&] {
    try {
      return load(subject);
    } catch (const EndOfSuite&) {
      throw;
    } catch (const std::exception& error) {  // without a model nothing else can be asked
      throw EndOfSuite(error.what());
    }
  });
  checks.check("load: after a failed load the model is still there", [&] {
    load_nowhere(subject);
    return load_again(subject);
  });
}

}  // namespace kvscope::app::conformance
