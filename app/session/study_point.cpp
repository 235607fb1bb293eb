#include "app/session/study_point.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/core/support/text.h"

namespace kvscope::app {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr const char* kDense = "full";
constexpr const char* kHybrid = "hybrid:heads=d";

json object_of(const std::string& text) {
  json value = json::parse(text, nullptr, false);
  return value.is_object() ? value : json::object();
}

std::string text_of(const json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : std::string();
}

int integer_of(const json& object, const char* key, int fallback) {
  if (!object.contains(key) || !object[key].is_number_integer()) return fallback;
  const double value = object[key].get<double>();
  return value >= 0 && value < 1e9 ? static_cast<int>(value) : fallback;
}

/// A list of texts, or one.
std::vector<std::string> texts_of(const json& object, const char* key) {
  std::vector<std::string> texts;
  if (!object.contains(key)) return texts;
  const json list = object[key].is_array() ? object[key] : json::array({object[key]});
  for (const json& item : list) {
    if (item.is_string()) texts.push_back(item.get<std::string>());
  }
  return texts;
}

/// Of a column of texts or numbers, as text; empty without it.
std::string cell(const StudyTable& study, const char* name, int row) {
  const StudyColumn* column = study.column(name);
  if (column == nullptr) return "";
  const auto at = static_cast<std::size_t>(row);
  if (column->is_text) return column->texts[at];
  return std::isnan(column->numbers[at]) ? "" : number_text(column->numbers[at]);
}

void take_facts(const json& facts, MeasuredPoint& point) {
  point.model_name = text_of(facts, "model");
  point.weights_hash = text_of(facts, "weights_hash");
  point.device = text_of(facts, "device");
  point.dtype = text_of(facts, "dtype");
  point.length = integer_of(facts, "length", 0);
  for (const char* key : {"inputs", "texts", "gates"}) {
    for (std::string& input : texts_of(facts, key)) point.inputs.push_back(std::move(input));
  }
}

void of_sweep(const StudyTable& study, int row, MeasuredPoint& point) {
  const json request = object_of(study.request), facts = object_of(study.facts);
  const json asked = object_of(cell(study, "asked", row));
  point.model = text_of(asked, "model");
  if (point.model.empty()) point.model = text_of(request, "model");
  if (asked.empty()) {
    point.why_not = "An older KVScope made this study. It does not record what each point was asked for.";
    return;
  }
  point.policy = text_of(asked, "policy");
  point.chunk = integer_of(asked, "chunk", 0);
  if (point.chunk == 0) {
    point.why_not = "This point is from the questions of a task, so there is no text to read.";
    return;
  }
  const json groups = facts.value("groups", json::object());
  const std::string group = text_of(asked, "group"), gate = text_of(asked, "gate"), item = cell(study, "item", row);
  if (groups.contains(group) && groups[group].is_object()) {
    take_facts(groups[group], point);
  } else {
    point.why_not = "The study does not record its model and texts.";
  }
  point.gates = texts_of(request, "gates");
  if (!gate.empty()) point.gates.push_back(gate);
  point.n_pieces = point.pieces_of_text = std::max(1, integer_of(request, "pieces", 8));
  for (const std::string& text : texts_of(request, "texts")) {
    if (fs::path(text).filename() == item) point.text = text;
  }
  if (point.text.empty()) point.text = item;
}

/// The heads of a point; none of the gate's own policy.
void take_heads(const StudyTable& study, int row, const json& facts, MeasuredPoint& point) {
  const StudyArray* heads = study.array("global_heads");
  if (heads == nullptr || heads->shape.size() != 3 || row >= heads->shape[0]) {
    point.why_not = "The study does not record which heads are global.";
    return;
  }
  point.n_layers = static_cast<int>(heads->shape[1]), point.n_kv_heads = static_cast<int>(heads->shape[2]);
  const auto n = static_cast<std::size_t>(heads->shape[1] * heads->shape[2]);
  const auto first = heads->values.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * n);
  for (auto it = first; it != first + static_cast<std::ptrdiff_t>(n); ++it)
    point.heads.push_back(*it >= 0.5 ? 1.0f : 0.0f);
  point.n_sink = integer_of(facts, "sinks", 4), point.window = integer_of(facts, "window", 128);
}

void of_hybrid(const StudyTable& study, int row, int piece, MeasuredPoint& point) {
  const json request = object_of(study.request), facts = object_of(study.facts);
  const std::string strategy = cell(study, "strategy", row);
  take_facts(facts, point);
  point.hashes_gate_files = true;
  point.model = text_of(request, "model");
  point.chunk = std::max(1, integer_of(facts, "chunk", 16));
  point.gates = texts_of(request, "gate");
  const std::vector<std::string> texts = texts_of(request, "texts");
  point.n_pieces = std::max(1, integer_of(facts, "pieces", 1));
  point.pieces_of_text = std::max(1, point.n_pieces / std::max(1, static_cast<int>(texts.size())));
  const auto at = static_cast<std::size_t>(std::clamp(piece, 0, point.n_pieces - 1) / point.pieces_of_text);
  if (at < texts.size()) point.text = texts[at];
  if (strategy == "dense") {
    point.policy = kDense;
  } else if (strategy == "gate") {
    point.policy = text_of(facts, "policy");
  } else if (strategy == "budgets") {
    point.why_not = "Each head had its own threshold, found on this piece. No policy in the window can express that.";
  } else {
    point.policy = kHybrid;
    take_heads(study, row, facts, point);
  }
}

}  // namespace

std::string MeasuredPoint::hash_of(const std::string& file_name) const {
  for (const std::string& input : inputs) {
    const std::size_t blank = input.rfind(' ');
    if (blank != std::string::npos && input.substr(0, blank) == file_name) return input.substr(blank + 1);
  }
  return "";
}

MeasuredPoint measured_point(const StudyTable& study, int row, int piece) {
  MeasuredPoint point;
  point.trace = cell(study, "trace", row);
  if (study.kind == kSweepStudy || study.kind == kEvalStudy) {
    of_sweep(study, row, point);
  } else if (study.kind == kHybridStudy) {
    of_hybrid(study, row, piece, point);
  } else {
    point.why_not = study.kind == kTrainingStudy ? "A training step has no run." : "A benchmark's point reads no text.";
  }
  if (point.n_pieces == 0) return point;
  piece = std::clamp(piece, 0, point.n_pieces - 1);
  point.piece = piece % point.pieces_of_text;
  if (point.why_not.empty() && (point.length < 1 || point.text.empty()))
    point.why_not = "The study does not record which text was read.";
  const StudyArray* nll = study.array("piece_nll");
  if (nll != nullptr && nll->shape.size() == 2 && row < nll->shape[0] && piece < nll->shape[1])
    point.nll = nll->values[static_cast<std::size_t>(row * nll->shape[1] + piece)];
  return point;
}

std::string compare_with_study(const MeasuredPoint& point, const RunRecord& run) {
  double sum = 0;
  for (std::size_t i = 1; i < run.logprobs.size(); ++i) sum -= run.logprobs[i];
  if (run.logprobs.size() < 2) return "";
  const std::string here = fixed_text(sum / static_cast<double>(run.logprobs.size() - 1), 5);
  return "NLL of piece " + std::to_string(point.piece + 1) + ": " + here + " here, " +
         (std::isnan(point.nll) ? "not recorded" : fixed_text(point.nll, 5)) + " in the study";
}

}  // namespace kvscope::app
