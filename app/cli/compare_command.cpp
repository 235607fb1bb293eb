// kvscope compare: two traces of the same prompts, or a trace and another policy on its tokens.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "app/cli/arguments.h"
#include "app/cli/command_list.h"
#include "app/cli/engine_options.h"
#include "app/cli/output.h"
#include "app/support/trace_open.h"
#include "engine/core/study/measure/common_oracle.h"
#include "engine/core/study/measure/compare_runs.h"
#include "engine/core/study/measure/oracle_label.h"
#include "engine/core/support/error.h"

namespace kvscope::app {
namespace {

using nlohmann::ordered_json;

constexpr OptionSpec kCompareOptions[] = {
    {"policy", "SPEC", "compare TRACE with this policy on the same tokens (needs the model)"},
    {"model", "PATH", "the model's folder (the one recorded in the trace)"},
    {"run", "N", "only this run of TRACE, or of A and B (all)"},
    {"per-token", "", "with --policy: print a line for each token"},
    {"forced", "", "with --policy: the policies act from the prompt's first token, after every token"},
    {"chunk", "N", "the same, after every N tokens"},
    kOracleOption,
    kOutputErrorOption,
    kGateOption,
    kDeviceOption,
    kDtypeOption,
    kEngineOption,
    kQuietOption,
    {"json", "", "one object: runs, each with the printed values and more"},
};

constexpr const char* kOverlapDefinition =
    "|kept by both| / |kept by either| at the last common position q, over t <= q - window (the larger window)";

// Which run of B answers the prompt of which run of A: by prompt index where both say it, else by place.
struct Pairing {
  std::vector<std::pair<int, int>> pairs;
  std::vector<int> only_a, only_b;
};

Pairing pair_runs(const TraceInfo& a, const TraceInfo& b) {
  Pairing result;
  const bool by_index = a.capture.n_prompts > 0 && b.capture.n_prompts > 0;
  std::map<int, int> in_b;
  for (int i = 0; i < b.n_runs; ++i) in_b[by_index ? b.prompt_index[i] : i] = i;
  for (int i = 0; i < a.n_runs; ++i) {
    const auto found = in_b.find(by_index ? a.prompt_index[i] : i);
    if (found == in_b.end()) {
      result.only_a.push_back(i);
      continue;
    }
    result.pairs.emplace_back(i, found->second);
    in_b.erase(found);
  }
  for (const auto& [key, run] : in_b) result.only_b.push_back(run);
  return result;
}

ordered_json rows_of(const HeadMap& map) {
  ordered_json rows = ordered_json::array();
  for (int layer = 0; layer < map.n_layers; ++layer) {
    ordered_json row = ordered_json::array();
    for (int head = 0; head < map.n_kv_heads; ++head) row.push_back(number_or_null(map.at(layer, head)));
    rows.push_back(row);
  }
  return rows;
}

ordered_json token_of(const RunRecord& run, int position) {
  if (position >= run.n_tokens()) return nullptr;  // it had ended
  const auto i = static_cast<std::size_t>(position);
  return {{"id", run.ids[i]}, {"piece", i < run.pieces.size() ? std::string(run.pieces[i]) : ""}};
}

// Each run by its own oracle, whole; both by one oracle, up to the last query that they have in common; and by what eviction
// did to their outputs; null where that was not recorded. Runs whose texts part have no future in common.
ordered_json quality_json(const RunRecord& a, const RunRecord& b, const RunComparison& c) {
  const auto pair = [&](const auto& value) {
    return ordered_json{{"a", number_or_null(value(a))}, {"b", number_or_null(value(b))}};
  };
  ordered_json result = {
      {"output_error", pair([&](const RunRecord& run) { return mean(head_metric(run, Metric::output_error, c.q)); })},
      {"own_oracle", nullptr},
      {"common_oracle", nullptr}};
  const auto add_means = [](ordered_json& to, const OracleMean& of_a, const OracleMean& of_b, OracleOf whose) {
    const auto add = [&](const char* name, double value_a, double value_b) {
      to[name] = {{"a", number_or_null(value_a)}, {"b", number_or_null(value_b)}};
    };
    to["label"] = oracle_label(whose, of_a, of_b);
    add("recall", of_a.recall, of_b.recall);
    add("chance", of_a.chance, of_b.chance);
    add("above_chance", of_a.above_chance(), of_b.above_chance());
    add("mass_recall", of_a.mass_recall, of_b.mass_recall);
    add("k", of_a.capacity, of_b.capacity);
  };
  const OracleMean own_a = mean_of(Oracle(a)), own_b = mean_of(Oracle(b));
  if (own_a.n + own_b.n > 0) add_means(result["own_oracle"] = ordered_json::object(), own_a, own_b, OracleOf::own);
  const auto common = c.diverged || c.q < 0 ? std::nullopt : CommonOracle::of(a, b);
  if (!common) return result;
  ordered_json& oracle =
      result["common_oracle"] = {{"tokens", common->tokens()}, {"q", c.q}, {"oracle", common->spec().to_string()}};
  add_means(oracle, mean_of(common->oracle(a), c.q), mean_of(common->oracle(b), c.q),
            common->is_own() ? OracleOf::own : OracleOf::shared);
  return result;
}

ordered_json comparison_json(const RunRecord& a, const RunRecord& b, const RunComparison& c) {
  ordered_json result = {{"prompt_index", a.prompt_index},
                         {"same_prompt", c.same_prompt},
                         {"tokens", {a.n_tokens(), b.n_tokens()}},
                         {"common_tokens", c.n_common},
                         {"diverges_at", nullptr}};
  if (c.n_common < std::max(a.n_tokens(), b.n_tokens()))
    result["diverges_at"] = {{"position", c.n_common}, {"a", token_of(a, c.n_common)}, {"b", token_of(b, c.n_common)}};
  result["nll"] = {{"tokens", c.n_scored},
                   {"a", number_or_null(c.nll_a)},
                   {"b", number_or_null(c.nll_b)},
                   {"change", number_or_null(c.nll_b - c.nll_a)}};
  result.update(quality_json(a, b, c));
  result["overlap"] = number_or_null(mean(c.overlap));
  result["overlap_by_head"] = rows_of(c.overlap);
  return result;
}

std::string shown_token(const ordered_json& token) {
  if (token.is_null()) return "(end)";
  return in_quotes(token["piece"].get<std::string>(), 24) + " " + std::to_string(token["id"].get<int>());
}

std::vector<std::string> table_row(const ordered_json& run) {
  std::string where = "same text", token_a, token_b;
  if (const ordered_json& at = run["diverges_at"]; !at.is_null()) {
    where = "position " + std::to_string(at["position"].get<int>());
    if (!run["same_prompt"].get<bool>()) where += " (different prompts)";
    token_a = shown_token(at["a"]);
    token_b = shown_token(at["b"]);
  }
  return {std::to_string(run["a"].get<int>()) + ", " + std::to_string(run["b"].get<int>()),
          where,
          token_a,
          token_b,
          number_cell(run["overlap"]),
          number_cell(run["nll"]["a"]),
          number_cell(run["nll"]["b"]),
          number_cell(run["nll"]["change"])};
}

// Mean over the runs, head by head, of what is not NaN.
class MeanMap {
 public:
  void add(const HeadMap& map) {
    if (sum_.values.empty()) {
      sum_ = {map.n_layers, map.n_kv_heads, std::vector<float>(map.values.size(), 0)};
      n_.assign(map.values.size(), 0);
    }
    for (std::size_t i = 0; i < map.values.size(); ++i) {
      if (std::isnan(map.values[i])) continue;
      sum_.values[i] += map.values[i];
      ++n_[i];
    }
  }
  HeadMap mean() const {
    HeadMap map = sum_;
    for (std::size_t i = 0; i < map.values.size(); ++i)
      map.values[i] = n_[i] > 0 ? sum_.values[i] / static_cast<float>(n_[i]) : std::nanf("");
    return map;
  }

 private:
  HeadMap sum_;
  std::vector<int> n_;
};

// Means over the runs that have them.
void print_quality(const ordered_json& runs) {
  const auto line = [&](const std::string& title, const auto& find) {
    double a = 0, b = 0;
    int n = 0;
    for (const ordered_json& run : runs) {
      const ordered_json* found = find(run);
      if (found == nullptr || (*found)["a"].is_null() || (*found)["b"].is_null()) continue;
      a += (*found)["a"].get<double>(), b += (*found)["b"].get<double>(), ++n;
    }
    if (n > 0) std::printf("%s: A %.4f, B %.4f, mean of %d runs\n", title.c_str(), a / n, b / n, n);
  };
  const auto of_oracle = [](const char* whose, const char* name) {
    return [whose, name](const ordered_json& run) { return run[whose].is_null() ? nullptr : &run[whose][name]; };
  };
  // What the first pair goes by, if all go by the same.
  const auto label = [&](const char* whose) {
    std::string first;
    for (const ordered_json& run : runs) {
      if (run[whose].is_null()) continue;
      const auto text = run[whose]["label"].get<std::string>();
      if (!first.empty() && text != first) return text.substr(0, text.find(','));
      first = text;
    }
    return first;
  };
  const std::string shared = " (" + label("common_oracle") + ")";
  line("recall above chance" + shared, of_oracle("common_oracle", "above_chance"));
  line("recall" + shared, of_oracle("common_oracle", "recall"));
  line("chance" + shared, of_oracle("common_oracle", "chance"));
  line("mass recall" + shared, of_oracle("common_oracle", "mass_recall"));
  line("recall (" + label("own_oracle") + ")", of_oracle("own_oracle", "recall"));
  line("output error", [](const ordered_json& run) { return &run["output_error"]; });
}

void print_overlap(const HeadMap& map) {
  std::vector<std::vector<std::string>> rows = {{"layer"}};
  for (int head = 0; head < map.n_kv_heads; ++head) rows[0].push_back("head " + std::to_string(head));
  for (int layer = 0; layer < map.n_layers; ++layer) {
    auto& row = rows.emplace_back(std::vector<std::string>{std::to_string(layer)});
    for (int head = 0; head < map.n_kv_heads; ++head) row.push_back(format_number(map.at(layer, head), 3));
  }
  std::printf("\noverlap, mean over runs: %s\n%s", kOverlapDefinition, format_table(rows).c_str());
}

int compare_traces(const Arguments& arguments) {
  const std::string &path_a = arguments.positionals()[0], &path_b = arguments.positionals()[1];
  TraceReader trace_a = open_trace(path_a), trace_b = open_trace(path_b);
  Pairing pairing;
  if (arguments.has("run")) {
    const int run = static_cast<int>(arguments.integer("run", 0, 0, 1 << 30));
    pairing.pairs = {{run, run}};
  } else {
    pairing = pair_runs(trace_a.info(), trace_b.info());
    if (pairing.pairs.empty())
      throw Error(
          {.file = path_b, .found = "no run with a prompt that " + path_a + " has", .expected = "at least one"});
  }
  Progress progress(arguments.has("quiet"));
  ordered_json runs = ordered_json::array();
  MeanMap overlap;
  std::pair<std::string, std::string> policies;
  for (const auto& [i, j] : pairing.pairs) {
    progress.update("compare", static_cast<double>(runs.size()), static_cast<double>(pairing.pairs.size()));
    const RunRecord a = trace_a.load(i), b = trace_b.load(j);
    policies = {a.policy.to_string(), b.policy.to_string()};
    const RunComparison comparison = compare_runs(a, b);
    overlap.add(comparison.overlap);
    ordered_json run = {{"a", i}, {"b", j}};
    run.update(comparison_json(a, b, comparison));
    runs.push_back(std::move(run));
  }
  progress.clear();
  if (arguments.has("json")) {
    write_json_line(ordered_json{{"overlap_definition", kOverlapDefinition},
                                 {"policy_a", policies.first},
                                 {"policy_b", policies.second},
                                 {"runs", runs},
                                 {"overlap_by_head", rows_of(overlap.mean())},
                                 {"only_in_a", pairing.only_a},
                                 {"only_in_b", pairing.only_b}});
  } else {
    std::vector<std::vector<std::string>> rows = {
        {"runs", "texts diverge at", "A has", "B has", "overlap", "nll A", "nll B", "change"}};
    for (const ordered_json& run : runs) rows.push_back(table_row(run));
    std::printf("A  %s\nB  %s\n\n%s", policies.first.c_str(), policies.second.c_str(), format_table(rows).c_str());
    std::printf("nll: mean over the tokens that both have, in nats\n");
    print_quality(runs);
    if (const auto n = pairing.only_a.size()) std::printf("runs only in A: %zu\n", n);
    if (const auto n = pairing.only_b.size()) std::printf("runs only in B: %zu\n", n);
    print_overlap(overlap.mean());
  }
  return 0;
}

int compare(const Arguments& arguments) {
  const bool two = arguments.positionals().size() == 2;
  if (two == arguments.has("policy"))
    usage_error("kvscope compare", two ? "both a second trace and --policy" : "one trace",
                "A B, or TRACE --policy SPEC");
  for (const char* name : {"forced", "chunk", "gate", "oracle", "output-error"}) {
    if (two && arguments.has(name))
      usage_error(dashed(name), "two traces", "TRACE --policy SPEC, because A B needs no model");
  }
  return two ? compare_traces(arguments) : compare_policies(arguments);
}

}  // namespace

extern const CommandSpec compare_command = {
    "compare",
    "A B | TRACE --policy SPEC [--model PATH]",
    "show where two runs diverge, and what another policy would cost",
    "A and B are traces of the same prompts. Prints where their texts diverge, how much of each head's cache is the "
    "same, and the NLL of the tokens that both have. If one text is the beginning of the other, also recall with one "
    "oracle for both (as many tokens as the smaller budget, else 25 %). With --policy, the model reads the trace's "
    "tokens again, once under the run's own policy with its changes and once under SPEC. This is teacher forcing, so "
    "every number is measured: change of NLL, first position where the most probable token differs, cache size and "
    "density. Each policy reads the prompt as in its own run, so a policy with a dense prompt gets one, and the answer "
    "token by token. With --forced or --chunk the policies act from the prompt's first token, as in kvscope score. "
    "--oracle and --output-error are measured as well.",
    "  kvscope compare full.h5 kvpop.h5\n"
    "  kvscope compare a.h5 --policy streaming:sinks=4,window=508\n"
    "  kvscope compare a.h5 --policy snapkv:keep=20% --chunk 16",
    {1, 2},
    kCompareOptions,
    compare};

}  // namespace kvscope::app
