// Defines train_job: recipe and corpus in, model folder out.

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "engine/core/files/weights/safetensors.h"
#include "engine/core/support/error.h"
#include "engine/core/support/file_lock.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_file.h"
#include "engine/jobs/job.h"
#include "engine/jobs/train/gate_method.h"
#include "engine/jobs/train/phase.h"
#include "engine/jobs/train/team.h"
#include "engine/jobs/train/train_device.h"

namespace kvscope::engine {
namespace {

std::string required_path(const nlohmann::json& args, const char* key) {
  if (args.contains(key) && args.at(key).is_string() && !args.at(key).get<std::string>().empty()) {
    return args.at(key).get<std::string>();
  }
  throw Error({.code = ExitCode::usage, .where = std::string("--") + key, .found = "nothing", .expected = "a path"});
}

/// The recipe as JSON: a file's name or the object itself, with "overrides" merged over it (RFC 7396).
std::pair<nlohmann::json, std::string> recipe_json(const nlohmann::json& args) {
  const bool inline_recipe = args.contains("recipe") && args.at("recipe").is_object();
  std::string source = inline_recipe ? std::string("recipe") : required_path(args, "recipe");
  nlohmann::json json = inline_recipe ? args.at("recipe") : read_json(source);
  if (args.contains("overrides")) json.merge_patch(args.at("overrides"));
  if (args.contains("seed") && args.at("seed").is_number_integer()) json["seed"] = args.at("seed");
  return {std::move(json), std::move(source)};
}

/// For each of the devices.
int loader_threads(const nlohmann::json& args, at::Device device, int n_devices) {
  if (args.contains("threads") && args.at("threads").is_number_integer()) {
    return std::clamp(args.at("threads").get<int>(), 1, 64);
  }
  const int n_cores = static_cast<int>(std::thread::hardware_concurrency());
  return device.is_cuda() ? std::clamp((n_cores - 2) / n_devices, 1, 12)
                          : 1;  // on the CPU the cores belong to the products
}

/// The held-out accuracy of the phases as a table for a model card; empty where none was measured.
std::string markdown(const nlohmann::json& result) {
  std::string text;
  const auto row = [&](const std::string& name, double value) {
    char line[128];
    std::snprintf(line, sizeof line, "| %s | %.4f |\n", name.c_str(), value);
    text += line;
  };
  if (result.contains("base")) {
    for (const auto& [task, count] : result["base"]["heldout_teacher_forced"].items()) {
      row("dense, " + task, count["right"].get<double>() / count["asked"].get<double>());
    }
  }
  if (result.contains("scorer")) {
    for (const auto& [top_k, recall] : result["scorer"]["heldout_oracle_recall"].items()) {
      row("oracle recall, top_k " + top_k, recall["mean"].get<double>());
    }
  }
  if (result.contains("gate") && result["gate"].contains("heldout_loss")) {
    row("squared error", result["gate"]["heldout_loss"]["mean"].get<double>());
    row("share of the variance explained", result["gate"]["heldout_r2"]["mean"].get<double>());
  }
  return text.empty() ? text : "| held out, teacher-forced | value |\n|---|---|\n" + text;
}

constexpr char kResult[] = "training.json";  // what a training that is done says of itself

/// What is trained from what, and on what kind of device: two trainings of one identity go the same way.
std::string identity_of(const nlohmann::json& recipe, const Corpus& corpus, const std::filesystem::path& base,
                        const std::vector<at::Device>& devices) {
  Fnv1a text;
  for (const auto part : {corpus.training(), corpus.heldout()}) {
    text.add_word(part.size());
    for (const std::int32_t id : part) text.add_word(static_cast<std::uint32_t>(id));
  }
  if (corpus.training().empty()) text.add(read_file(corpus.tokenizer_file(), kMaxTokenizerBytes));
  const std::string model = base.empty() ? "" : ", base " + WeightFiles::open(base).hash();
  return "recipe " + hex_text(fnv1a64(recipe.dump())) + ", text " + text.hex() + model + ", " +
         (devices.size() > 1 ? std::to_string(devices.size()) + " x " : std::string()) +
         (devices.front().is_cuda() ? "cuda" : "cpu");
}

/// `base`: the model's folder; empty without one.
Corpus corpus_of(const Recipe& recipe, const std::filesystem::path& base, const std::filesystem::path& data) {
  const int vocabulary = recipe.model.vocab_size;
  if (recipe.palindrome || recipe.data.reasoning_share == 1)
    return Corpus::without_text(base.empty() ? data : base, vocabulary);
  return base.empty() ? Corpus::open(data, vocabulary, recipe.heldout_share)
                      : Corpus::open_for(base, data, vocabulary, recipe.heldout_share);
}

/// A checkpoint that a phase of this training would replace, the first by name, or the end of a training; "" if there is none.
std::string standing_result(const std::filesystem::path& output, const std::string& phase) {
  std::string first;
  if (!std::filesystem::is_directory(output)) return first;
  for (const auto& entry : std::filesystem::directory_iterator(output)) {
    const std::string name = entry.path().filename().string(), of = entry.path().stem().string();
    if (entry.path().extension() != kCheckpointSuffix && name != kResult) continue;
    if (!first.empty() && first < name) continue;
    if (name == kResult || phase == "all" || phase == (of == "base" || of == "scorer" ? of : "gate")) first = name;
  }
  return first;
}

bool flag(const nlohmann::json& args, const char* key) {
  return args.contains(key) && args.at(key).is_boolean() && args.at(key).get<bool>();
}

/// What an earlier call of the same training said at its end, if it came to that.
std::optional<nlohmann::json> finished(const std::filesystem::path& output, const std::string& identity) {
  if (!std::filesystem::exists(output / kResult)) return std::nullopt;
  const std::string file = (output / kResult).string();
  const nlohmann::json json = read_json(file);
  const JsonObject done(json, file);
  if (done.text("identity") != identity) {
    throw Error({.file = file,
                 .found = "another training",
                 .expected = "a training of " + identity,
                 .hint = "use another folder, or --overwrite"});
  }
  if (!done.has("result") || !json["result"].is_object())
    throw Error({.file = file, .found = "no result", .expected = "the description of a training"});
  return json["result"];
}

/// A folder of somebody else: files are there, and none that a training leaves. A model's config.json would be replaced.
void check_folder(const std::filesystem::path& output) {
  namespace fs = std::filesystem;
  if (!fs::exists(output)) return;
  const auto refuse = [&](const char* found) {
    throw Error({.file = output.string(),
                 .found = found,
                 .expected = "a new or empty folder, or the folder of a training",
                 .hint = "--overwrite writes into it and keeps other files"});
  };
  if (!fs::is_directory(output)) refuse("a file");
  if (fs::is_empty(output) || fs::exists(output / "recipe.json") || fs::exists(output / kResult)) return;
  if (standing_result(output, "all").empty()) refuse("other files");
}

/// "cuda:0, cuda:1"
std::string text_of(const std::vector<at::Device>& devices) {
  std::string text;
  for (const at::Device& device : devices) text += (text.empty() ? "" : ", ") + device.str();
  return text;
}

/// The phase on all devices at once; what it says is the first one's word.
nlohmann::json run_on(const std::vector<at::Device>& devices, const Training& training,
                      nlohmann::json (*run_phase)(const Training&)) {
  if (devices.size() == 1) return run_phase(training);
  Team team(static_cast<int>(devices.size()));
  nlohmann::json result;
  team.run([&](int member) {
    Training of_member = training;
    of_member.device = devices[static_cast<std::size_t>(member)];
    of_member.team = &team;
    of_member.member = member;
    const c10::DeviceGuard guard(of_member.device);  // of this thread: our own kernels run where it points
    nlohmann::json facts = run_phase(of_member);
    if (member == 0) result = std::move(facts);
  });
  return result;
}

}  // namespace

nlohmann::json train_job(const nlohmann::json& args, JobContext& context) {
  const auto [json, source] = recipe_json(args);
  const std::filesystem::path output = required_path(args, "output"), data = required_path(args, "data");
  const std::filesystem::path base = args.value("base", std::string());
  const std::optional<ModelConfig> config = base.empty() ? std::nullopt : std::optional(ModelConfig::load(base));
  const Recipe recipe = Recipe::parse(json, source, config ? &*config : nullptr);
  const std::string phase = args.value("phase", "all");
  if (phase != "all" && phase != "base" && phase != "scorer" && phase != "gate") {
    throw Error({.code = ExitCode::usage, .where = "--phase", .found = phase, .expected = "all, base, scorer or gate"});
  }
  if (recipe.gate) check_gate(*recipe.gate, source);  // known before a corpus is read
  if (recipe.probe && recipe.gate && !recipe.scorer && !find_gate_method(recipe.gate->method, source).kind)
    throw Error({.file = source,
                 .where = "probe",
                 .found = "method " + recipe.gate->method + ", which has no scores",
                 .expected = "a method with a gate"});
  const std::vector<at::Device> devices = training_devices(args.value("device", "auto"));
  const Corpus corpus = corpus_of(recipe, base, data);
  const bool resumed = flag(args, "resume");
  const std::string identity = identity_of(json, corpus, base, devices);
  if (resumed && phase == "all") {
    if (auto done = finished(output, identity)) return *done;
  } else if (const std::string there = standing_result(output, phase);
             !there.empty() && !resumed && !flag(args, "overwrite")) {
    throw Error({.file = (output / there).string(),
                 .found = "it already holds a training",
                 .expected = "another folder, --resume or --overwrite"});
  }
  if (!flag(args, "overwrite")) check_folder(output);
  std::filesystem::create_directories(output);
  const FileHandle lock = lock_folder(output);  // one training writes here
  std::filesystem::remove(output / kResult);
  write_file_atomic(output / "recipe.json", json.dump(2) + "\n");

  const Training training{.recipe = recipe,
                          .corpus = corpus,
                          .device = devices.front(),
                          .output = output,
                          .base = config        ? base
                                  : recipe.base ? output
                                                : std::filesystem::path(),
                          .loader_threads = loader_threads(args, devices.front(), static_cast<int>(devices.size())),
                          .identity = identity,
                          .resumed = resumed,
                          .checkpoint_seconds = args.value("checkpoint_seconds", 60.0),
                          .context = context};
  nlohmann::json result = {{"status", "done"}, {"output", output.string()}, {"device", text_of(devices)}};
  const auto run = [&](const char* name, bool is_there, nlohmann::json (*run_phase)(const Training&)) {
    if (!is_there || result["status"] != "done" || (phase != "all" && phase != name)) return;
    result[name] = run_on(devices, training, run_phase);
    if (result[name]["status"] == "cancelled") result["status"] = "cancelled";
  };
  run("base", recipe.base.has_value(), run_base_phase);
  run("scorer", recipe.scorer.has_value(), run_scorer_phase);
  run("gate", recipe.gate || recipe.kvzap, recipe.kvzap ? run_kvzap_phase : run_gate_phase);
  if (result["status"] == "cancelled") return {{"status", "cancelled"}};
  result["markdown"] = markdown(result);
  if (phase != "all") return result;
  write_file_atomic(output / kResult, nlohmann::json({{"identity", identity}, {"result", result}}).dump(2) + "\n");
  for (const auto& entry : std::filesystem::directory_iterator(output)) {
    if (entry.path().extension() == kCheckpointSuffix) std::filesystem::remove(entry.path());
  }
  return result;
}

}  // namespace kvscope::engine
