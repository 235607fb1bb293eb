#include <charconv>
#include <nlohmann/json.hpp>

#include "engine/core/policy/declared_policy.h"
#include "engine/core/policy/policy_table.h"
#include "engine/core/record/asked_json.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "engine/core/trace/run_table.h"

namespace kvscope::trace {

namespace {

std::string changes_text(const RunRecord& run) {
  std::string text;
  for (const auto& change : run.changes) text += std::to_string(change.q) + "\t" + change.policy.to_string() + "\n";
  return text;
}

/// A line each: query, tab, policy.
void set_changes(RunRecord& run, std::string_view rest) {
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    PolicyChange change;
    const char* end = line.data() + line.size();
    const auto [tab, failure] = std::from_chars(line.data(), end, change.q);
    if (line.size() == rest.size() || failure != std::errc() || tab == end || *tab != '\t')
      throw Error({.found = in_quotes(line), .expected = "lines of query, tab and policy"});
    change.policy = PolicySpec::parse({tab + 1, static_cast<std::size_t>(end - tab - 1)}, run.policy.declared);
    run.changes.push_back(std::move(change));
    rest.remove_prefix(line.size() + 1);
  }
}

std::string declaration_text(const RunRecord& run) {
  return run.policy.declared == nullptr ? "" : declaration_json(run.policy.declared->declaration).dump();
}

/// The texts after it are parsed against this one, whatever an engine offers under the name.
void set_declaration(RunRecord& run, std::string_view text) {
  if (!text.empty()) run.policy.declared = declare_policy(declaration_of_json(parse_json(text, "declaration")));
}

void set_policy(RunRecord& run, std::string_view text) {
  PolicySpec policy = PolicySpec::parse(text, run.policy.declared);
  if (policy.declared != run.policy.declared)
    throw Error(
        {.found = in_quotes(text), .expected = "the policy that the run's declaration names, or none of an engine"});
  run.policy = std::move(policy);
}

template <auto Member>
std::string text_of(const RunRecord& run) {
  return run.*Member;
}
template <auto Member>
void set_text(RunRecord& run, std::string_view text) {
  run.*Member = text;
}

}  // namespace

const std::array<RunText, 14> kRunTexts = {{
    {Dataset::prompt_text_span, text_of<&RunRecord::prompt_text>, set_text<&RunRecord::prompt_text>, ""},
    {Dataset::recorder_span, text_of<&RunRecord::recorder>, set_text<&RunRecord::recorder>, ""},
    {Dataset::declaration_span, declaration_text, set_declaration, ""},
    {Dataset::policy_span, [](const RunRecord& run) { return run.policy.to_string(); }, set_policy,
     "a policy of this version"},
    {Dataset::message_span, text_of<&RunRecord::message>, set_text<&RunRecord::message>, ""},
    {Dataset::command_line_span, command_line_in_trace, nullptr, ""},
    {Dataset::started_utc_span, text_of<&RunRecord::started_utc>, set_text<&RunRecord::started_utc>, ""},
    {Dataset::policy_json_span, [](const RunRecord& run) { return policy_json(run.policy, run.n_positions).dump(); },
     nullptr, ""},
    {Dataset::changes_span, changes_text, set_changes, "policies of this version"},
    {Dataset::oracle_span, [](const RunRecord& run) { return run.oracle.to_string(); },
     [](RunRecord& run, std::string_view text) { run.oracle = OracleSpec::parse(text); }, "an oracle of this version"},
    {Dataset::asked_span, asked_text,
     [](RunRecord& run, std::string_view text) {
       if (!text.empty()) run.asked = std::make_shared<const Asked>(asked_of_text(run, text));
     },
     "what a run can be asked for"},
    {Dataset::scorer_gate_span, [](const RunRecord& run) { return run.scorer.gate; },
     [](RunRecord& run, std::string_view text) { run.scorer.gate = text; }, ""},
    {Dataset::scorer_kind_span, [](const RunRecord& run) { return run.scorer.kind; },
     [](RunRecord& run, std::string_view text) { run.scorer.kind = text; }, ""},
    {Dataset::scorer_span, [](const RunRecord& run) { return run.scorer.text; },
     [](RunRecord& run, std::string_view text) { run.scorer.text = text; }, ""},
}};

}  // namespace kvscope::trace
