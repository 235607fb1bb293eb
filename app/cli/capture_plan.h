#pragma once
// Which prompts a capture answers, and whether a trace that is there is the beginning of it.

#include <map>
#include <string>
#include <vector>

#include "app/cli/arguments.h"
#include "app/cli/prompts.h"
#include "engine/core/protocol/protocol.h"
#include "engine/core/trace/trace_file.h"

namespace kvscope::app {

inline constexpr OptionSpec kResumeOption = {"resume", "",
                                             "continue FILE if it exists, without the prompts that it already has"};
inline constexpr OptionSpec kShardOption = {"shard", "I/N", "only prompts i with i % N == I, for i from 0 (0/1)"};

struct Shard {
  int index = 0, of = 1;
};
/// Of "0/4". Throws Error (usage).
Shard parse_shard(const std::string& text);

struct CapturePlan {
  std::string file;
  CaptureInfo info;
  std::vector<Prompt> prompts;  // the whole list
  std::vector<int> indices;     // of this shard's
  std::vector<int> done;        // of those that FILE has already
  bool is_whole() const { return done.size() == indices.size(); }
  /// This shard's prompts that are still to be answered.
  std::vector<int> left() const;
};

/// "0/4", as --shard has it.
std::string shard_text(const CaptureInfo& capture);

/// From --shard and the request that all prompts share. Throws Error (usage) for a shard that is none.
CapturePlan plan_capture(const Arguments& arguments, std::vector<Prompt> prompts, const RunRequest& request);

/// What a chat consists of; nothing if the prompt is its one message.
std::vector<ChatMessage> messages_of(const Arguments& arguments, const Prompt& prompt);

/// What the tokenizer says of a plan's prompts.
struct PromptCheck {
  int longest_run = 0;             // tokens of a run at most: rows of the file have one length
  std::map<int, std::string> bad;  // why a prompt cannot be decoded, by index
};
/// Every prompt as the engine will read it: empty ones, ones that do not fit the context, messages that the template
/// refuses. An engine on another machine (--engine) may have a model that cannot be read here: then nothing is checked,
/// and the model's own limit is the longest run.
PromptCheck check_prompts(const Arguments& arguments, const std::string& folder, const ModelInfo& model,
                          const CapturePlan& plan, const RunRequest& request);

/// Reads the trace at plan.file, checks every run of it, and notes which prompts are done. Throws Error that names the
/// first thing that is not as the plan has it: the shard, an option, a prompt.
TraceInfo check_beginning(CapturePlan& plan, bool quiet);

/// Throws Error (bad input) unless the trace was made with this model, this number format and this device.
void check_same_model(const CapturePlan& plan, const ModelInfo& recorded, const ModelInfo& loaded);

}  // namespace kvscope::app
