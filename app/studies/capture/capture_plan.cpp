#include "app/studies/capture/capture_plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/engine_client/progress.h"
#include "app/support/interrupt.h"
#include "app/support/trace_open.h"
#include "engine/core/files/tokenizer/chat.h"
#include "engine/core/files/weights/model_folder.h"
#include "engine/core/record/command_line.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"

namespace kvscope::app {
namespace {

using nlohmann::json;

// A byte that no text has stands between texts, so that none can pass a letter to the next.
class TextHash {
 public:
  void add(std::string_view text) {
    hash_.add(text);
    hash_.add_word(0xff);
  }
  std::string hex() const { return hash_.hex(); }

 private:
  Fnv1a hash_;
};

std::string hash_of(const std::optional<std::string>& system, const std::vector<Prompt>& prompts) {
  TextHash hash;
  for (const Prompt& prompt : prompts) {
    hash.add(prompt.text);
    for (const ChatMessage& message : messages_of(system, prompt)) {
      hash.add(message.role);
      hash.add(message.content);
    }
    hash.add("");
  }
  return hash.hex();
}

[[noreturn]] void other(const CapturePlan& plan, std::string where, std::string found, std::string expected) {
  throw Error({.file = plan.file,
               .where = std::move(where),
               .found = std::move(found),
               .expected = std::move(expected),
               .hint = "--resume continues the same capture only; use another file for this one"});
}

void check_heading(const CapturePlan& plan, const TraceInfo& info) {
  if (info.capture.n_prompts == 0)
    other(plan, "", "a trace that is not from kvscope capture", "a trace from kvscope capture");
  if (!info.shards.empty()) other(plan, "", "a merged trace", "one of its shards");
  if (info.capture.shard != plan.info.shard || info.capture.n_shards != plan.info.n_shards)
    other(plan, "--shard", shard_text(info.capture), shard_text(plan.info));
  CaptureInfo same_list = info.capture;
  same_list.prompts_hash = plan.info.prompts_hash;
  same_list.n_prompts = plan.info.n_prompts;
  if (const auto difference = capture_difference(same_list, plan.info))
    other(plan, difference->what, difference->a, difference->b);
}

void check_run(const CapturePlan& plan, const RunRecord& run) {
  const int index = run.prompt_index;
  const std::string where = "prompt " + std::to_string(index);
  if (!std::ranges::binary_search(plan.indices, index))
    other(plan, where, "not in this capture", "one of " + std::to_string(plan.info.n_prompts) + " prompts");
  if (run.prompt_text != plan.prompts[index].text)
    other(plan, where, in_quotes(run.prompt_text, 40), in_quotes(plan.prompts[index].text, 40));
}

/// The field of a declaration, as a person would say it.
std::string field_text(const json& declaration, const std::string& field) {
  const auto found = declaration.find(field);
  if (found == declaration.end()) return "none";
  return in_quotes(found->is_string() ? found->get<std::string>() : found->dump(), 60);
}

/// The first field in which they differ, the revision before all others; empty: none.
std::string different_field(const json& a, const json& b) {
  const auto differ = [&](const std::string& field) { return a.value(field, json()) != b.value(field, json()); };
  if (differ("revision")) return "revision";
  for (const json* one : {&a, &b})
    for (const auto& [field, value] : one->items())
      if (differ(field)) return field;
  return "";
}

}  // namespace

std::string shard_text(const CaptureInfo& capture) {
  return std::to_string(capture.shard).append("/") + std::to_string(capture.n_shards);  // gcc 12 warns of "/" + string
}

std::vector<int> CapturePlan::left() const {
  std::vector<int> left;
  std::ranges::set_difference(indices, done, std::back_inserter(left));
  return left;
}

std::vector<ChatMessage> messages_of(const std::optional<std::string>& system, const Prompt& prompt) {
  if (!prompt.messages.empty()) return with_system(system, prompt.messages);
  if (!system) return {};
  return with_system(system, {{"user", prompt.text}});
}

CapturePlan plan_capture(const CaptureAsked& asked, std::vector<Prompt> prompts, const RunRequest& request) {
  CapturePlan plan{
      .file = asked.file, .system = asked.system, .info = {}, .prompts = std::move(prompts), .indices = {}, .done = {}};
  plan.info = {.n_prompts = static_cast<int>(plan.prompts.size()),
               .shard = asked.shard.index,
               .n_shards = asked.shard.of,
               .prompts_hash = hash_of(asked.system, plan.prompts),
               .request = option_line(request)};
  for (std::int64_t i = asked.shard.index; i < plan.info.n_prompts; i += asked.shard.of)
    plan.indices.push_back(static_cast<int>(i));
  return plan;
}

PromptCheck check_prompts(const CapturePlan& plan, const std::string& folder, bool is_elsewhere, const ModelInfo& model,
                          const RunRequest& request) {
  std::optional<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat;
  try {
    tokenizer = Tokenizer::load(folder);
    if (!request.raw) chat = ChatTemplate::load(folder);
  } catch (const Error&) {
    if (!is_elsewhere) throw;
    return {model.max_positions, {}};
  }
  PromptCheck check;
  std::size_t longest = 0;
  for (const int index : plan.indices) {
    const Prompt& prompt = plan.prompts[index];
    std::vector<ChatMessage> messages = messages_of(plan.system, prompt);
    if (messages.empty()) messages = {{"user", prompt.text}};
    try {
      const auto ids =
          chat ? chat->encode(*tokenizer, messages, request.chat) : tokenizer->encode_with_special(prompt.text);
      const auto most = static_cast<std::size_t>(model.max_positions);
      check_token_ids(ids, model.vocab_size, &*tokenizer);
      if (ids.empty()) {
        check.bad[index] = "no token; expected at least one";
      } else if (ids.size() > most) {
        check.bad[index] =
            std::to_string(ids.size()) + " tokens; expected at most " + std::to_string(most) + ", the model's context";
      } else {
        longest = std::max(longest, ids.size());
      }
    } catch (const Error& error) {
      check.bad[index] = error.what();
    }
  }
  check.longest_run = static_cast<int>(
      std::min<std::int64_t>(static_cast<std::int64_t>(longest) + request.max_tokens, model.max_positions));
  return check;
}

TraceInfo check_beginning(CapturePlan& plan, bool quiet) {
  Progress progress(quiet);
  TraceReader trace = open_trace(plan.file);
  const TraceInfo& info = trace.info();
  check_heading(plan, info);
  for (int i = 0; i < info.n_runs; ++i) {
    if (interrupted()) throw Error({.code = ExitCode::cancelled, .found = "cancelled while checking " + plan.file});
    progress.update("check", i, info.n_runs);
    const RunRecord run = trace.load(i);
    check_run(plan, run);
    plan.done.push_back(info.prompt_index[i]);
    if (run.policy.declared != nullptr) plan.declared.insert(run.policy.declared);
  }
  std::ranges::sort(plan.done);
  const auto twice = std::ranges::adjacent_find(plan.done);
  if (twice != plan.done.end()) other(plan, "prompt " + std::to_string(*twice), "answered twice", "once");
  // Only now, so that a prompt that was changed is named if it can be.
  if (const auto difference = capture_difference(info.capture, plan.info))
    other(plan, difference->what, difference->a, difference->b);
  return info;
}

void check_same_model(const CapturePlan& plan, const ModelInfo& recorded, const ModelInfo& loaded) {
  if (const auto difference = model_difference(recorded, loaded))
    other(plan, "model " + difference->what, in_quotes(difference->a), in_quotes(difference->b));
}

void check_same_methods(const CapturePlan& plan, const protocol::EngineOffer& offer) {
  for (const DeclaredPolicy* held : plan.declared) {
    const std::string& name = held->declaration.name;
    const auto now =
        std::ranges::find_if(offer.policies, [&](const auto* one) { return one->declaration.name == name; });
    if (now == offer.policies.end()) continue;  // it cannot run, which is refused as anywhere
    const json before = declaration_json(held->declaration);
    json today = declaration_json((*now)->declaration);
    if (!before.contains("revision")) today.erase("revision");
    const std::string field = different_field(before, today);
    if (field.empty()) continue;
    throw Error({.file = plan.file,
                 .where = "policy " + name + ": " + field,
                 .found = field_text(before, field),
                 .expected = field_text(today, field) + ", as the engine declares it now",
                 .hint = "the method has changed; use another output file, or restore the method"});
  }
}

}  // namespace kvscope::app
