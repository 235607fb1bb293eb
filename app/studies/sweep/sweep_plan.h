#pragma once
// What a sweep measures: a recipe (docs/reference/studies.md) as points, and the evaluations that answer for them.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "app/studies/shard.h"
#include "engine/core/study/measure/evaluation.h"

namespace kvscope::app {

inline constexpr const char* kDensePolicy = "full";
// Of a group's name, before its parts in this order.
inline constexpr const char *kLengthInName = ", length ", *kGateInName = ", gate ", *kWithInName = ", with ",
                            *kModelInName = ", model ";

/// A policy with its parameters and, of a list of gates, one.
struct SweepPoint {
  std::string policy;                       // as it is asked for: "kvpop:keep=25%,window=64"
  std::string gate;                         // of the entry's list, as the recipe has it; empty: none of its own
  std::string gate_file;                    // its path if it is beside the recipe, else the same
  std::string model;                        // a folder; empty: the plan's
  std::string loads;                        // names of the gates that the policy needs besides: "kvpop"
  std::string curve;                        // which points stand beside each other: "kvpop:keep=*,window=64"
  std::map<std::string, std::string> axes;  // "keep" -> "25%"
};

/// One evaluation of the engine: texts read at one chunk, or tasks asked at one seed, of one length, under the points of the
/// same model and gates. No gate is loaded for a policy that does not need it: some change the attention of every policy (those of DMS
/// in the query's channel, and adapters).
struct SweepGroup {
  bool is_texts = false;
  int chunk = 1;           // of texts
  std::uint64_t seed = 1;  // of tasks
  std::string gate, gate_file, loads, model;
  int length = 0;           // of several lengths; 0: the plan's
  bool asks_dense = false;  // of the groups that differ in model and gate alone, the first
  std::vector<std::size_t> points;
  EvalRequest request = {};

  /// Names it in the file of answers: "texts, chunk 16, gate wg-kv-0.01".
  std::string name() const;
  /// Of groups that are compared with the same dense answers: the name without model and gate.
  std::string base() const;
};

struct SweepPlan {
  std::string recipe;   // JSON, as it was read
  std::string model;    // the folder
  EvalRequest request;  // what all groups share
  std::vector<SweepPoint> points;
  std::vector<std::string> axes;  // names, in the order of the columns
  std::vector<SweepGroup> groups;
  std::vector<double> matched;      // costs at which curves are compared
  std::string cost = "cache_size";  // the column that a point costs

  /// Of all groups, of texts and tasks: questions and pieces times policies.
  std::int64_t n_answers() const;
  /// Names of texts or tasks of a group, as answers have them, and of how many pieces or questions.
  std::vector<std::string> items(const SweepGroup& group) const;
  int n_of(const SweepGroup& group) const { return group.is_texts ? request.pieces : request.questions; }
  /// The policies that a group asks, the dense one first if it does.
  std::vector<std::string> policies(const SweepGroup& group) const;
};

/// EvalAnswer::key() of what a group asks that falls to a shard: with i the piece or question and p the policy's place,
/// (i + p) % shard.of == shard.index, so that shards have their part of every policy.
std::vector<std::string> sweep_keys(const SweepPlan& plan, const SweepGroup& group, const Shard& shard = {});

/// Reads and checks a recipe; finds model, texts and gates (not with `elsewhere`, when the engine is on another machine).
/// Throws Error (bad input) naming what is wrong; of a policy's text too, which elsewhere is an error of usage.
SweepPlan plan_sweep(const std::filesystem::path& recipe, bool elsewhere);

}  // namespace kvscope::app
