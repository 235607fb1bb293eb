// Defines eval_job: a model, tasks, texts and policies in; marked answers out, one by one.

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "engine/core/files/tokenizer/text_pieces.h"
#include "engine/core/record/assemble.h"
#include "engine/core/support/error.h"
#include "engine/core/support/hash.h"
#include "engine/core/support/json_fields.h"
#include "engine/decode/run.h"
#include "engine/decode/run_batch.h"
#include "engine/decode/run_memory.h"
#include "engine/jobs/job.h"
#include "engine/jobs/tasks/eval_policies.h"
#include "engine/jobs/tasks/eval_run.h"
#include "engine/model/weights.h"

namespace kvscope::engine {
namespace {

namespace fs = std::filesystem;

constexpr int kUsualLength = 2048;
constexpr int kTinyVocabulary = 16384;  // below it, a model knows the words of the training recipe and few others
constexpr std::size_t kMaxTextBytes = 256u << 20;

/// Something that is asked several times: a task, or a text in pieces.
struct Item {
  std::string name;
  const Task* task = nullptr;                     // nullptr: a text
  std::vector<std::vector<std::int32_t>> pieces;  // of a text
  int n = 0;
  std::string input;  // of a text: as EvalFacts::inputs has it
};

int length_of(const EvalRequest& request, int context) {
  if (request.length == 0) return std::min(kUsualLength, context);
  if (request.length <= context) return request.length;
  throw Error({.code = ExitCode::usage,
               .file = "--length",
               .found = std::to_string(request.length) + " tokens",
               .expected = "at most the model's context of " + std::to_string(context)});
}

std::vector<std::string> tasks_of(const EvalRequest& request, const LoadedModel& model) {
  if (!request.tasks.empty() || !request.texts.empty()) return request.tasks;
  const bool tiny = model.config().vocab_size < kTinyVocabulary;
  if (!tiny) return {"needle", "birthplace", "passkey"};
  std::vector<std::string> names;
  for (const Task& task : task_list()) {
    if (task.for_tiny) names.emplace_back(task.name);
  }
  return names;
}

std::string input_of(const fs::path& path, std::string_view bytes) {
  return path.filename().string() + " " + hex_text(fnv1a64(bytes));
}

/// What a model's answers follow from besides its weights, of which the engine has a hash already.
std::vector<std::string> inputs_of(const LoadedModel& model, const fs::path& folder) {
  std::vector<std::string> inputs = model.gate_hashes();
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    std::error_code none;
    if (fs::exists(folder / name, none)) inputs.push_back(input_of(name, read_file(folder / name, kMaxTextBytes)));
  }
  return inputs;
}

/// A template that is not known is no reason not to evaluate the model.
ChatTemplate chat_template_of(const std::string& model) {
  try {
    return ChatTemplate::load(model);
  } catch (const Error& error) {
    Error::Parts parts = error.parts();
    parts.hint = "without --chat the questions are plain prompts";
    throw Error(std::move(parts));
  }
}

Item text_item(const LoadedModel& model, const std::string& path, int n, int length) {
  const std::string text = read_file(path, kMaxTextBytes);
  CutText cut = cut_text(model.tokenizer(), text, n, length);
  if (cut.pieces.empty()) {
    throw Error({.code = ExitCode::usage,
                 .file = path,
                 .found = std::to_string(cut.n_tokens) + " tokens",
                 .expected = std::to_string(n) + " pieces of " + std::to_string(length),
                 .hint = "use fewer --pieces or a smaller --length"});
  }
  return {.name = fs::path(path).filename().string(),
          .pieces = std::move(cut.pieces),
          .n = n,
          .input = input_of(path, text)};
}

/// A question that is being decoded under one policy.
struct Asked {
  EvalAnswer who;
  EvalMeasures measures;
  const Task* task;
  TaskQuestion question;
  std::vector<RunRecord> records;  // one, or one for each choice
  std::size_t number;              // of the question
  std::size_t n_ended = 0;
};

class Evaluation {
 public:
  Evaluation(const EvalRequest& request, JobContext& context)
      : request_(request),
        context_(context),
        model_(LoadedModel::load(request.model, {request.device, request.dtype, request.gates})),
        length_(length_of(request, model_.config().max_positions)),
        policies_(policies_of(request, model_, length_)),
        inputs_(inputs_of(model_, request.model)),
        done_(request.done.begin(), request.done.end()) {
    for (const std::string& name : tasks_of(request, model_)) {
      items_.push_back({.name = name, .task = &find_task(name), .n = request.questions});
    }
    if (!items_.empty()) {
      std::optional<ChatTemplate> chat;
      if (request.chat) chat = chat_template_of(request.model);
      std::string filler;
      if (std::ranges::any_of(items_, [](const Item& item) { return item.task->reads_filler; })) {
        filler = filler_text(request.filler, request.model);
        inputs_.push_back(input_of(request.filler.empty() ? "filler" : request.filler, filler));
      }
      material_.emplace(TaskMaterial::make(model_.tokenizer(), filler, chat ? &*chat : nullptr, request.seed));
    }
    // What does not fit says so before anything is asked.
    for (const Item& item : items_) make_question(*item.task, *material_, 0, length_);
    for (const std::string& path : request.texts) {
      items_.push_back(text_item(model_, path, request.pieces, length_));
      inputs_.push_back(items_.back().input);
    }
    check_names();
    for (const Item& item : items_) {
      const auto answers = static_cast<std::size_t>(item.task != nullptr ? request.rollouts : 1);
      n_all_ += static_cast<std::size_t>(item.n) * policies_.size() * answers;
    }
  }

  void run() {
    tell_facts();
    RunBatch batch(model_, most_runs_at_once(model_.weights().device.is_cuda()));
    batch.run([this] { return next_run(); });
    for (const Item& item : items_) {
      if (item.task == nullptr) read_text(item);
    }
  }

 private:
  /// Answers are known by their item's name.
  void check_names() const {
    std::unordered_set<std::string> names;
    for (const Item& item : items_) {
      if (names.insert(item.name).second) continue;
      throw Error({.code = ExitCode::usage,
                   .file = item.task != nullptr ? "--tasks" : "--texts",
                   .found = in_quotes(item.name) + " twice",
                   .expected = "each task and each file name once"});
    }
  }

  void tell_facts() {
    EvalFacts facts{.model = model_.info().name,
                    .weights_hash = model_.info().weights_hash,
                    .device = model_.info().device,
                    .dtype = model_.info().dtype,
                    .length = length_,
                    .policies = policies_,
                    .inputs = inputs_};
    for (const Item& item : items_) facts.items.push_back(item.name);
    if (context_.row) context_.row("", {{"facts", json_of_fields(facts)}});
  }

  /// The next question that lacks an answer. All policies get one question before any gets the next, so that what is stopped
  /// half-way has compared them on the same ones.
  std::optional<BatchedRun> next_run() {
    if (runs_.empty()) ask_next();
    if (runs_.empty()) return std::nullopt;
    BatchedRun run = std::move(runs_.front());
    runs_.pop_front();
    return run;
  }

  void ask_next() {
    for (; item_ < items_.size() && items_[item_].task != nullptr; ++item_, index_ = 0) {
      const Item& item = items_[item_];
      for (; index_ < item.n; ++index_, policy_ = 0, question_.reset()) {
        // All rollouts of one policy, then the next one's.
        while (policy_ < policies_.size() * static_cast<std::size_t>(request_.rollouts)) {
          EvalAnswer who = who_of(item, policies_[policy_ / static_cast<std::size_t>(request_.rollouts)], index_);
          who.rollout = static_cast<int>(policy_++ % static_cast<std::size_t>(request_.rollouts));
          if (!done_.contains(who.key())) return ask(item, who);
          ++n_done_;
        }
      }
    }
  }

  /// One run, or one for each choice.
  void ask(const Item& item, const EvalAnswer& who) {
    if (!question_) question_ = make_question(*item.task, *material_, static_cast<std::uint64_t>(who.index), length_);
    const std::size_t n_choices = question_->choices.size();
    const auto asked = std::make_shared<Asked>(Asked{who, measures_of(who), item.task, *question_, {}, n_asked_++});
    asked->records.resize(std::max<std::size_t>(1, n_choices));
    const PolicySpec policy = PolicySpec::parse(who.policy);
    for (std::size_t i = 0; i < asked->records.size(); ++i)
      runs_.push_back(run_of_asked(asked, i,
                                   n_choices > 0 ? run_of_choice(policy, asked->question, i, asked->measures)
                                                 : run_of(policy, asked->question, sampling_of(who), asked->measures)));
  }

  BatchedRun run_of_asked(const std::shared_ptr<Asked>& asked, std::size_t i, RunRequest request) {
    BatchedRun run{.request = std::move(request)};
    asked->records[i] = empty_record(model_, run.request);
    run.sink = sink_into(asked->records[i]);
    run.sink.prompt_logprobs = false;
    run.sink.hooks = hooks();
    run.ended = [this, asked, i](RunEnded ended) {
      end_run(asked->records[i], std::move(ended));
      if (++asked->n_ended < asked->records.size()) return;
      EvalAnswer answer = answer_of(model_, asked->records, *asked->task, asked->question, asked->measures);
      answers_.emplace(asked->number, with_name(std::move(answer), asked->who));
      // In the order of the questions, which end in another.
      for (auto next = answers_.find(n_told_); next != answers_.end(); next = answers_.find(n_told_)) {
        tell(next->second);
        answers_.erase(next);
        ++n_told_;
      }
    };
    run.failed = [](std::exception_ptr error) { std::rethrow_exception(error); };
    return run;
  }

  void read_text(const Item& item) {
    for (int index = 0; index < item.n; ++index) {
      for (const std::string& policy : policies_) {
        const EvalAnswer who = who_of(item, policy, index);
        if (done_.contains(who.key())) {
          ++n_done_;
          continue;
        }
        tell(with_name(read_piece(model_, PolicySpec::parse(policy), item.pieces[static_cast<std::size_t>(index)],
                                  request_.chunk, measures_of(who), hooks()),
                       who));
      }
    }
  }

  EvalAnswer who_of(const Item& item, const std::string& policy, int index) const {
    return {.item = item.name, .policy = policy, .is_dense = policy == policies_.front(), .index = index};
  }
  /// A rollout draws the same under every policy, as far as their texts are the same.
  SamplingSpec sampling_of(const EvalAnswer& who) const {
    return {.temperature = request_.temperature,
            .top_p = request_.top_p,
            .seed = split_mix(request_.seed ^ fnv1a64(who.item + "\t" + std::to_string(who.index) + "\t" +
                                                      std::to_string(who.rollout)))};
  }
  /// The dense reference loses nothing: what its recall and its error would be measured by are passes for NaN.
  EvalMeasures measures_of(const EvalAnswer& who) const {
    return {request_.oracle && !who.is_dense, request_.output_error && !who.is_dense};
  }
  static EvalAnswer with_name(EvalAnswer answer, const EvalAnswer& who) {
    answer.item = who.item;
    answer.policy = who.policy;
    answer.index = who.index;
    answer.rollout = who.rollout;
    answer.is_dense = who.is_dense;
    return answer;
  }
  void tell(const EvalAnswer& answer) {
    ++n_done_;
    if (context_.row) context_.row("", {{"answer", json_of_fields(answer)}});
    if (context_.progress)
      context_.progress("eval", static_cast<double>(n_done_), static_cast<double>(n_all_),
                        answer.item + ", " + answer.policy);
  }

  Hooks hooks() const {
    Hooks hooks;
    hooks.cancelled = [this] { return context_.cancelled != nullptr && context_.cancelled->load(); };
    return hooks;
  }

  const EvalRequest& request_;
  JobContext& context_;
  LoadedModel model_;
  int length_;
  std::vector<std::string> policies_;  // the dense one first
  std::vector<std::string> inputs_;
  std::unordered_set<std::string> done_;
  std::optional<TaskMaterial> material_;
  std::vector<Item> items_;
  std::size_t n_all_ = 0, n_done_ = 0;
  // Of the questions: where next_run() is, the question there, and what was answered before an earlier one.
  std::size_t item_ = 0, policy_ = 0, n_asked_ = 0, n_told_ = 0;
  int index_ = 0;
  std::optional<TaskQuestion> question_;
  std::map<std::size_t, EvalAnswer> answers_;
  std::deque<BatchedRun> runs_;  // of the question that was asked last, those that have not begun
};

}  // namespace

nlohmann::json eval_job(const nlohmann::json& args, JobContext& context) {
  const auto request = fields_of_json<EvalRequest>(args, "eval");
  if (request.model.empty()) JsonObject(args, "eval").text("model");  // names the field that is missing
  try {
    Evaluation(request, context).run();
    return {{"status", "done"}};
  } catch (const Error& error) {
    if (error.code() != ExitCode::cancelled) throw;
    return {{"status", "cancelled"}};
  }
}

}  // namespace kvscope::engine
