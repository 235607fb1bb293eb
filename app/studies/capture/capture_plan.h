#pragma once
// Which prompts a capture answers, and whether a trace that is there is the beginning of it.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/catalog/prompts.h"
#include "app/studies/shard.h"
#include "engine/core/protocol/engine_offer.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

/// What a capture is asked for besides the request that all its prompts share.
struct CaptureAsked {
  std::string file;  // the trace
  Shard shard = {};
  std::optional<std::string> system = {};  // message before each prompt
  bool resume = false, overwrite = false;
  bool skip_bad = false;  // prompts that cannot be decoded become failed runs
  int batch = 0;          // prompts that are decoded at once; 0: as many as the engine takes
};

struct CapturePlan {
  std::string file;
  std::optional<std::string> system;
  CaptureInfo info;
  std::vector<Prompt> prompts;               // the whole list
  std::vector<int> indices;                  // of this shard's
  std::vector<int> done;                     // of those that FILE has already
  std::set<const DeclaredPolicy*> declared;  // by which engines decoded those
  bool is_whole() const { return done.size() == indices.size(); }
  /// This shard's prompts that are still to be answered.
  std::vector<int> left() const;
};

/// "0/4", as --shard has it.
std::string shard_text(const CaptureInfo& capture);

CapturePlan plan_capture(const CaptureAsked& asked, std::vector<Prompt> prompts, const RunRequest& request);

/// What a chat consists of; nothing if the prompt is its one message.
std::vector<ChatMessage> messages_of(const std::optional<std::string>& system, const Prompt& prompt);

/// What the tokenizer says of a plan's prompts.
struct PromptCheck {
  int longest_run = 0;             // tokens of a run at most: rows of the file have one length
  std::map<int, std::string> bad;  // why a prompt cannot be decoded, by index
};
/// Every prompt as the engine will read it: empty ones, ones that do not fit the context, messages that the template
/// refuses. If the engine is elsewhere and the model cannot be read here, nothing is checked, and the model's own limit is the
/// longest run.
PromptCheck check_prompts(const CapturePlan& plan, const std::string& folder, bool is_elsewhere, const ModelInfo& model,
                          const RunRequest& request);

/// Reads the trace at plan.file, checks every run of it, and notes which prompts are done. Throws Error that names the
/// first thing that is not as the plan has it: the shard, an option, a prompt.
TraceInfo check_beginning(CapturePlan& plan, bool quiet);

/// Throws Error (bad input) unless the trace was made with this model, this number format and this device.
void check_same_model(const CapturePlan& plan, const ModelInfo& recorded, const ModelInfo& loaded);

/// Throws Error (bad input) if the engine declares another method today under the name of one that the trace holds. A trace
/// without a revision, of an engine that declared none, may go on with any.
void check_same_methods(const CapturePlan& plan, const protocol::EngineOffer& offer);

}  // namespace kvscope::app
