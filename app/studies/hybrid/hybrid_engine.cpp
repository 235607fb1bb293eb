#include "app/studies/hybrid/hybrid_engine.h"

#include <bit>
#include <cmath>
#include <cstdlib>

#include "app/catalog/gates.h"
#include "engine/core/files/gate/duo_directory.h"
#include "engine/core/protocol/events.h"
#include "engine/core/study/measure/output_error.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/seconds_since.h"
#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kHybrid = "hybrid:heads=d";  // heads, sinks and window are the directory's
constexpr int kSinks = 4, kWindow = 128;           // SP-KV Table 2, of local heads where no gate says others

std::string hash_of_pieces(const TextPieces& pieces) {
  Fnv1a hash;
  for (const auto& ids : pieces.ids)
    for (const std::int32_t id : ids) hash.add_word(static_cast<std::uint32_t>(id));
  return hash.hex();
}

std::string local_text(const CacheShape& cache) {
  return "sinks=" + std::to_string(cache.n_sink) + ",window=" + std::to_string(cache.window);
}

HeadSelection selection_of(const HeadShape& shape, const GlobalHeads& heads) {
  return {.n_layers = shape.n_layers,
          .n_kv_heads = shape.n_kv_heads,
          .full = std::vector<float>(heads.begin(), heads.end()),
          .coverage = std::nan("")};
}

/// Over the tokens that have a probability, as `score` takes it.
double mean_nll(const RunRecord& run) {
  double sum = 0;
  int n = 0;
  for (const float logprob : run.logprobs) {
    if (std::isnan(logprob)) continue;
    sum -= logprob;
    ++n;
  }
  return sum / n;
}

}  // namespace

std::string text_of(const GlobalHeads& heads) {
  std::string text;
  for (const std::uint8_t head : heads) text += head != 0 ? '1' : '0';
  return text;
}

HeadFolders::HeadFolders() {
  std::string name = (fs::temp_directory_path() / "kvscope-heads-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error({.code = ExitCode::resource, .file = name, .found = "no temporary folder can be created"});
  path_ = name;
}

HeadFolders::~HeadFolders() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path HeadFolders::next() {
  std::error_code ignored;
  fs::remove_all(path_ / std::to_string(n_), ignored);
  return path_ / std::to_string(++n_);
}

HybridEngine::HybridEngine(const EngineJobOptions& engine, const HybridPlan& plan, const TextPieces& pieces)
    : plan_(plan), pieces_(pieces), device_(engine.device), dtype_(engine.dtype), job_(engine) {
  if (const std::string why = protocol::why_no_policy(job_.offer(), PolicySpec::parse(kHybrid)); !why.empty())
    throw Error({.code = ExitCode::usage, .file = "engine", .found = why});
  load_gates(plan.gates);
  const HeadsOfModel heads{.n_layers = model_.n_layers, .n_kv_heads = model_.n_kv_heads};
  cache_ = {.context = plan.context > 0 ? plan.context : model_.max_positions, .n_sink = kSinks, .window = kWindow};
  if (plan.policy) {
    policy_ = policy_on(*plan.policy, heads, gates_);
    const RetentionGeometry geometry = policy_->geometry(plan.length);
    cache_.n_sink = geometry.n_sink;
    cache_.window = geometry.window;
  }
  cache_.n_sink = plan.n_sink.value_or(cache_.n_sink);
  cache_.window = plan.window.value_or(cache_.window);
  cache_.bytes_per_token = 2.0 * model_.head_dim * (model_.dtype == "float32" ? 4 : 2);
  if (plan.length <= cache_.n_sink + cache_.window)
    throw Error({.code = ExitCode::usage,
                 .file = "--length",
                 .found = std::to_string(plan.length),
                 .expected = "more than sinks and window, " + std::to_string(cache_.n_sink + cache_.window),
                 .hint = "otherwise local heads evict nothing"});
  if (plan.length > model_.max_positions)
    throw Error({.code = ExitCode::usage,
                 .file = "--length",
                 .found = std::to_string(plan.length),
                 .expected = "at most " + std::to_string(model_.max_positions) + ", the model's context"});
  job_.show_engine_progress(false);
}

nlohmann::ordered_json HybridEngine::facts() const {
  std::vector<std::string> gates;
  for (const std::string& gate : plan_.gates)
    gates.push_back(fs::path(gate).filename().string() + " " + gate_files_hash(gate));
  return {{"model", model_.name},
          {"weights_hash", model_.weights_hash},
          {"dtype", model_.dtype},
          {"device", model_.device},
          {"gates", gates},
          {"policy", policy_ ? policy_->to_string() : ""},
          {"texts", pieces_.inputs},
          {"pieces", pieces_.ids.size()},
          {"pieces_hash", hash_of_pieces(pieces_)},
          {"length", plan_.length},
          {"chunk", plan_.chunk},
          {"sinks", cache_.n_sink},
          {"window", cache_.window}};
}

void HybridEngine::begin(HybridJournal& journal, int n_expected) {
  journal_ = &journal;
  n_expected_ = n_expected;
  start_ = std::chrono::steady_clock::now();
}

double HybridEngine::seconds() const { return seconds_since(start_); }

void HybridEngine::stop() const {
  Error::Parts parts{.code = ExitCode::cancelled, .file = "hybrid", .found = "cancelled"};
  if (journal_ != nullptr)
    parts.hint = "measurements up to now are in " + plan_.journal + "; run the same command to continue";
  throw Error(std::move(parts));
}

// A load costs what reading the weights does (about 0.3 s of one core for SmolLM2-135M), as often as the heads change: callers go piece by piece
// within one choice of heads.
void HybridEngine::load_gates(const std::vector<std::string>& gates) {
  loaded_.clear();
  nlohmann::json done;
  try {
    done = job_.load_with(plan_.model, gates);
  } catch (const Error& error) {
    if (error.code() == ExitCode::cancelled) stop();  // which says where the rest is
    throw;
  }
  job_.progress().clear();
  model_ = protocol::model_from_event(done);
  gates_ = protocol::gates_from_event(done);
}

void HybridEngine::load(const GlobalHeads& heads) {
  if (loaded_ == text_of(heads)) return;
  folder_ = folders_.next();
  export_duo(selection_of(shape(), heads), cache_.n_sink, cache_.window, folder_, false);
  std::vector<std::string> gates = plan_.gates;
  gates.push_back(folder_.string());
  load_gates(gates);
  loaded_ = text_of(heads);
}

const HeadValues& HybridEngine::values(const std::string& key, int n_passes, int n_values,
                                       const std::function<HeadValues()>& measure) {
  n_done_ += n_passes;
  if (journal_ == nullptr) return unkept_ = measure();
  return journal_->values(key, static_cast<std::size_t>(n_values), [&] {
    job_.progress().update("hybrid", n_done_ - n_passes, std::max(n_expected_, n_done_), "passes");
    n_measured_ += n_passes;
    return measure();
  });
}

double HybridEngine::score(const PolicySpec& policy, int piece) {
  const auto done = job_.call(ScoreRequest{
      .text = "", .ids = pieces_.ids[static_cast<std::size_t>(piece)], .policy = policy, .chunk = plan_.chunk});
  if (protocol::was_cancelled(done)) stop();
  return protocol::score_from_event(done).nll;
}

double HybridEngine::dense_nll(int piece) {
  return values("dense#" + std::to_string(piece), 1, 1,
                [&] { return HeadValues{score(PolicySpec::parse("full"), piece)}; })[0];
}

double HybridEngine::gated_nll(int piece) {
  return values("gated#" + std::to_string(piece), 1, 1, [&] { return HeadValues{score(*plan_.policy, piece)}; })[0];
}

double HybridEngine::hybrid_nll(const GlobalHeads& heads, int piece) {
  return values("heads " + text_of(heads) + "#" + std::to_string(piece), 1, 1, [&] {
    load(heads);
    return HeadValues{score(PolicySpec::parse(kHybrid), piece)};
  })[0];
}

/// The piece as it is read under the request's policy, as `score --chunk` reads it, with scores and masses.
RunRecord HybridEngine::read(RunRequest request, int piece) {
  request.prompt_ids = pieces_.ids[static_cast<std::size_t>(piece)];
  request.max_tokens = 0;
  request.chunk = plan_.chunk;
  request.stop_at_eos = false;
  RunRecord record;
  job_.run(model_, request, record);
  if (record.status != RunStatus::complete) stop();
  return record;
}

HeadValues HybridEngine::density(int piece) {
  return values("density#" + std::to_string(piece), 1, shape().count(),
                [&] { return admitted_density(read({.policy = *plan_.policy, .oracle = false}, piece), *policy_); });
}

/// hybrid:heads=d in which a global head keeps what the policy's gate admits.
std::string HybridEngine::policy_of_again() const {
  std::string text = std::string(kHybrid) + ",on=threshold";
  const bool by_density = policy_->has("density") && policy_->value("density") != kWordValue;
  for (const char* name : {"threshold", "strict", "density", "density_over"}) {
    const bool is_of_density = std::string_view(name).starts_with("density");
    if (by_density == is_of_density && policy_->has(name))
      text += "," + std::string(name) + "=" + number_text(policy_->value(name));
  }
  return text;
}

HeadValues HybridEngine::density_under(const GlobalHeads& heads, int piece) {
  return values("again " + text_of(heads) + "#" + std::to_string(piece), 1, shape().count(), [&] {
    load(heads);
    return admitted_density(read({.policy = PolicySpec::parse(policy_of_again()), .oracle = false}, piece), *policy_);
  });
}

HybridEngine::BudgetReading HybridEngine::read_budgets(const HeadValues& shares, int piece) {
  Fnv1a hash;
  for (const double share : shares) hash.add_word(std::bit_cast<std::uint64_t>(share));
  HeadValues found = values("budgets " + hash.hex() + "#" + std::to_string(piece), 2, shape().count() + 1, [&] {
    const RunRecord scored = read({.policy = *plan_.policy, .oracle = false}, piece);
    PolicySpec policy = *policy_;
    policy.values["density"] = 0.5;  // of each head its own: the thresholds come with the request
    policy.values["density_over"] = 1;
    policy.unwritten.clear();
    policy.forget_replaced();
    RunRequest request{.policy = policy, .oracle = false};
    request.thresholds = thresholds_of_shares(scored, *policy_, shares);
    const RunRecord run = read(request, piece);
    HeadValues result = admitted_density(run, policy);
    result.push_back(mean_nll(run));
    return result;
  });
  BudgetReading reading{.nll = found.back(), .kept = std::move(found)};
  reading.kept.pop_back();
  return reading;
}

HeadValues HybridEngine::oracle_mass_lost(int piece) {
  return values("oracle#" + std::to_string(piece), 2, shape().count(), [&] {
    return mass_lost_if_local(read({.policy = PolicySpec::parse("streaming:" + local_text(cache_)),
                                    .oracle = true,
                                    .oracle_spec = OracleSpec::parse(kMassOfLocal)},
                                   piece));
  });
}

HeadValues HybridEngine::output_error(int piece) {
  return values("output-error#" + std::to_string(piece), 2, shape().count(), [&] {
    const RunRecord record = read(
        {.policy = PolicySpec::parse("streaming:" + local_text(cache_)), .oracle = false, .output_error = true}, piece);
    const HeadMap map = output_error_map(record, record.queries() - 1).map;
    return HeadValues(map.values.begin(), map.values.end());
  });
}

}  // namespace kvscope::app
