// kvscope-fake-engine: speaks the engine's protocol without a model, and can be told to be slow, to fail, to hang, to
// die. For tests and for trying the window.
//
//   --slow MS          sleep so long in each decode step
//   --hold             wait before a run's tokens, or a job's second row, until it is cancelled; 20 s at most
//   --slow-oracle MS   sleep so long behind the first new token, as the oracle that reads the prompt then does
//   --late-progress    say before each decode step how far the prompt is
//   --die-at-token N   kill itself before the N-th generated token, or answer of an evaluation, ...
//   --die-in-run N     kill itself before the second token of the N-th run, ...
//   --die-at-prompt T  kill itself before the second token of a run whose prompt has the text T, ...
//   --once FILE        ... unless FILE exists; makes it
//   --gate KIND,THRESHOLD,WINDOW[,DELAY]
//                      say so of a gate of the model
//   --declare RULE     declare the policy fake.RULE, whose rule is none or top_k; repeatable
//   --offer JSON       take these fields up into the greeting: name, serves, default_policy ...
//   --fail load|run    answer that request with an error; load:TEXT and run:TEXT if its path or policy has that text
//   --hang             greet, then answer nothing, not even quit

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/protocol/channel.h"
#include "engine/core/protocol/engine_offer.h"
#include "engine/core/protocol/events.h"
#include "engine/core/support/error.h"
#include "engine/core/support/version.h"
#include "tests/fake_engine/fake_eval.h"
#include "tests/fake_engine/fake_model.h"
#include "tests/fake_engine/fake_run.h"
#include "tests/support/declarations.h"

namespace kvscope::fake {
namespace {

struct Options {
  int slow_ms = 0, slow_oracle_ms = 0;
  int die_at_token = -1, die_in_run = -1;
  std::string once, fail, die_at_prompt;
  GatesOfModel gates;
  std::vector<const DeclaredPolicy*> declared;
  nlohmann::json offer = nlohmann::json::object();
  bool hang = false, hold = false, late_progress = false;
};

// "sp_kv,0.9,64", with the scorer's delay behind it where it says one: "kvpop_mlstm,0,64,64"
GateOfModel gate_of(const std::string& text) {
  std::vector<std::string> parts;
  std::stringstream words(text);
  for (std::string part; std::getline(words, part, ',');) parts.push_back(part);
  parts.resize(4, "");
  GateOfModel gate{
      .kind = parts[0],
      .numbers = GateNumbers{.threshold = std::atof(parts[1].c_str()), .window = std::atoi(parts[2].c_str())}};
  if (!parts[3].empty()) gate.delay = std::atoi(parts[3].c_str());
  return gate;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (word == "--hang") {
      options.hang = true;
    } else if (word == "--hold") {
      options.hold = true;
    } else if (word == "--late-progress") {
      options.late_progress = true;
    } else if (word == "--slow" && value) {
      options.slow_ms = std::atoi(argv[++i]);
    } else if (word == "--slow-oracle" && value) {
      options.slow_oracle_ms = std::atoi(argv[++i]);
    } else if (word == "--die-at-token" && value) {
      options.die_at_token = std::atoi(argv[++i]);
    } else if (word == "--die-in-run" && value) {
      options.die_in_run = std::atoi(argv[++i]);
    } else if (word == "--die-at-prompt" && value) {
      options.die_at_prompt = argv[++i];
    } else if (word == "--once" && value) {
      options.once = argv[++i];
    } else if (word == "--gate" && value) {
      options.gates.scorers.push_back(gate_of(argv[++i]));
    } else if (word == "--declare" && value) {
      const std::string rule = argv[++i];
      options.declared.push_back(declare_policy(
          declaration_of_json(test::declared_json(("fake." + rule).c_str(), ("Fake " + rule).c_str(), rule.c_str()))));
    } else if (word == "--offer" && value) {
      options.offer = nlohmann::json::parse(argv[++i]);
    } else if (word == "--fail" && value) {
      options.fail = argv[++i];
    } else {
      std::fprintf(stderr, "error: %s: unknown option or no value\n", word.c_str());
      std::exit(static_cast<int>(ExitCode::usage));
    }
  }
  return options;
}

// A reader thread takes requests in, so that a cancel arrives while a run is being played.
class Server {
 public:
  Server(const Options& options, Channel& channel) : options_(options), channel_(channel) {}

  int serve() {
    nlohmann::json hello = protocol::hello(version(), "none", false, "cpu (fake)");
    hello.update(protocol::to_json(protocol::EngineOffer{.policies = options_.declared}));
    hello.update(options_.offer);
    channel_.write(hello);
    std::thread reader([this] { read(); });
    reader.detach();  // it ends with the process; nothing else may end it while it waits in read()
    while (true) {
      const nlohmann::json request = next();
      if (request.is_null() || request.value("type", "") == "quit") return 0;
      answer(request);
    }
  }

 private:
  void read() {
    while (true) {
      std::optional<nlohmann::json> message = channel_.read();
      const std::scoped_lock lock(mutex_);
      if (message && message->value("type", "") == "cancel") {
        cancelled_id_ = message->value("target", -1);
        changed_.notify_all();
        continue;
      }
      requests_.push_back(message ? *message : nlohmann::json());
      changed_.notify_one();
      if (!message) return;
    }
  }

  nlohmann::json next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !requests_.empty() && !options_.hang; });
    nlohmann::json request = std::move(requests_.front());
    requests_.pop_front();
    return request;
  }

  /// No clock knows when a cancel arrives on a busy machine.
  void hold(int id) {
    std::unique_lock lock(mutex_);
    if (options_.hold) changed_.wait_for(lock, std::chrono::seconds(20), [this, id] { return cancelled_id_ == id; });
  }

  void answer(const nlohmann::json& request) {
    const int id = request.value("id", -1);
    const std::string type = request.value("type", "");
    try {
      if (fails(type, request)) {
        throw Error({.code = type == "load" ? ExitCode::bad_input : ExitCode::resource,
                     .file = "fake engine",
                     .found = "it was told to fail at " + type,
                     .hint = "start it without --fail"});
      }
      std::visit([&](const auto& wanted) { play(wanted, id); }, protocol::request_from_json(request));
    } catch (const Error& error) {
      channel_.write(protocol::error_event(id, error));
    }
  }

  bool fails(const std::string& type, const nlohmann::json& request) const {
    if (options_.fail == type) return true;
    if (!options_.fail.starts_with(type + ":")) return false;
    const std::string text = request.value(type == "load" ? "model" : "policy", "");
    return text.find(options_.fail.substr(type.size() + 1)) != std::string::npos;
  }

  /// policy is not obeyed, cancel and quit are heard elsewhere.
  template <typename Heard>
  void play(const Heard&, int) {}

  void play(const protocol::DoctorRequest&, int id) {
    channel_.write(protocol::done(
        id, {{"checks", {{{"name", "fake engine"}, {"ok", true}, {"text", "no model, no device"}, {"hint", ""}}}}}));
  }

  void play(const protocol::LoadRequest& request, int id) {
    model_ = model_info(request.model);
    if (request.device.starts_with("cuda:")) model_.device = request.device + " (fake)";
    for (int i = 1; i <= 4; ++i) {
      channel_.write(protocol::progress(id, "load", i, 4));
      if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
    }
    channel_.write(protocol::done_load(id, model_, 0.01, options_.gates));
  }

  void play(const RunRequest& request, int id) {
    if (model_.n_layers == 0) throw Error({.code = ExitCode::usage, .file = "run", .found = "no model loaded"});
    RunHooks hooks;
    hooks.send = [this](const nlohmann::json& event) { channel_.write(event); };
    hooks.cancelled = [this, id] { return cancelled_id_ == id; };
    hooks.after_first_token = [this] { sleep_ms(options_.slow_oracle_ms); };
    const bool is_deadly =
        !options_.die_at_prompt.empty() && request.prompt.find(options_.die_at_prompt) < request.prompt.size();
    hooks.before_step = [this, id, is_deadly](int n) {
      if (options_.late_progress) channel_.write(protocol::progress(id, "prefill", 11, 12));
      if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
      if (n == 0) hold(id);
      if (n == options_.die_at_token || (n == 1 && (is_deadly || ++n_runs_ == options_.die_in_run))) die();
    };
    // As the engine does: a policy that reads no scores has none.
    const Policy& policy = policy_of(request.policy);
    if (policy.plan(request.policy, {}).source != ScoreSource::none) {
      hooks.scorer = {"kvpop_mlstm", 64, model_.scorer};
      if (const GateOfModel* gate = options_.gates.scorer(policy.info.gates))
        hooks.scorer = {gate->kind, 1, "a gate of numbers"};
      if (request.policy.declared != nullptr)
        hooks.scorer = {.kind = "", .delay = 0, .text = "scores of the fake engine"};
    }
    RunRequest with_gates = request;
    with_gates.policy = policy_on(request.policy, {model_.n_layers, model_.n_kv_heads, {}}, options_.gates);
    play_run(with_gates, id, model_, hooks);
  }

  void play(const ScoreRequest& request, int id) {
    RunHooks hooks;
    hooks.send = [this](const nlohmann::json& event) { channel_.write(event); };
    play_score(request, id, model_, hooks);
  }

  /// Query head h gives key t at query q the share 1 / (q - t + 2 + h).
  void play(const TokenAttentionRequest& request, int id) {
    if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
    TokenAttention attention{.layer = request.layer,
                             .n_heads = model_.n_heads,
                             .n_queries = static_cast<int>(request.ids.size()),
                             .tokens = request.tokens};
    for (const std::int32_t token : request.tokens) {
      for (int head = 0; head < attention.n_heads; ++head) {
        for (int q = 0; q < attention.n_queries; ++q) {
          attention.probability.push_back(q < token ? std::nanf("") : 1.0f / static_cast<float>(q - token + 2 + head));
        }
      }
    }
    channel_.write(protocol::done_token_attention(id, attention));
  }

  /// Head h of layer l gives token t a share in proportion to 1 + (t + h + l) mod 5; all shares add up to one.
  void play(const QueryAttentionRequest& request, int id) {
    if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
    const int n = static_cast<int>(request.ids.size());
    QueryAttention attention{.n_layers = model_.n_layers, .n_kv_heads = model_.n_kv_heads, .n_tokens = n};
    for (int head = 0; head < model_.n_layers * model_.n_kv_heads; ++head) {
      const int first = head / model_.n_kv_heads + head % model_.n_kv_heads;
      float sum = 0;
      for (int t = 0; t < n; ++t) sum += static_cast<float>(1 + (t + first) % 5);
      for (int t = 0; t < n; ++t) attention.probability.push_back(static_cast<float>(1 + (t + first) % 5) / sum);
    }
    channel_.write(protocol::done_query_attention(id, attention));
  }

  /// Every gate of the options, or one of KVpop: the score of token t in head h is ((7 t + 3 h) mod 11) / 10.
  void play(const GateScoresRequest& request, int id) {
    if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
    GatesOfModel gates = options_.gates;
    if (gates.scorers.empty()) gates.scorers.push_back({.kind = "kvpop_mlstm", .numbers = {}, .delay = 64});
    const int n = static_cast<int>(request.ids.size());
    ScoresOfGates all;
    for (const GateOfModel& gate : gates.scorers) {
      GateScores one{.gate = gate, .text = gate.kind, .log_gamma = {}, .scores = {model_.n_layers, model_.n_kv_heads}};
      one.scores.resize(request.ids.size(), std::nanf(""));
      for (int head = 0; head < model_.n_layers * model_.n_kv_heads; ++head) {
        std::vector<float>& row = one.scores.row(head / model_.n_kv_heads, head % model_.n_kv_heads);
        for (int t = 0; t < n - std::max(0, gate.delay); ++t) row[t] = static_cast<float>((7 * t + 3 * head) % 11) / 10;
      }
      all.push_back(std::move(one));
    }
    channel_.write(protocol::done_gate_scores(id, all, n));
  }

  void play(const protocol::JobRequest& request, int id) {
    if (request.job == "eval") return play_evaluation(request.args, id);
    const std::string& name = request.job;
    int rows = 0;
    for (; rows < 3 && cancelled_id_ != id; ++rows) {
      channel_.write(protocol::progress(id, name, rows, 3));
      hold(id);
      if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
      channel_.write(protocol::row(id, name + " row " + std::to_string(rows), {{"row", rows}}));
    }
    const char* status = cancelled_id_ == id ? "cancelled" : "complete";
    channel_.write(
        protocol::done(id, {{"result", {{"job", name}, {"rows", rows}, {"args", request.args}, {"status", status}}}}));
  }

  void play_evaluation(const nlohmann::json& args, int id) {
    int n = 0;
    const bool whole = play_eval(
        args, [&](const nlohmann::json& data) { channel_.write(protocol::row(id, "", data)); },
        [&] {
          if (options_.slow_ms > 0) sleep_ms(options_.slow_ms);
          if (++n == options_.die_at_token) die();
          return cancelled_id_ == id;
        });
    channel_.write(protocol::done(id, {{"result", {{"status", whole ? "done" : "cancelled"}}}}));
  }

  void die() {
    if (!options_.once.empty()) {
      if (std::ifstream(options_.once)) return;
      std::ofstream(options_.once) << "died\n";
    }
    std::fprintf(stderr, "fake engine: out of imaginary memory\n");
    std::fflush(stderr);
    ::raise(SIGKILL);
  }

  static void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

  const Options& options_;
  Channel& channel_;
  ModelInfo model_;
  int n_runs_ = 0;  // that came to a second token
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<nlohmann::json> requests_;
  std::atomic<int> cancelled_id_{-1};
};

}  // namespace
}  // namespace kvscope::fake

int main(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  const auto options = kvscope::fake::parse(argc, argv);
  kvscope::Channel channel(STDIN_FILENO, STDOUT_FILENO);
  try {
    std::_Exit(kvscope::fake::Server(options, channel).serve());  // the detached reader must not see destructors run
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fake engine: %s\n", error.what());
    return static_cast<int>(kvscope::ExitCode::internal);
  }
}
