// A point of a study, opened as a run.

#include <algorithm>
#include <exception>
#include <utility>

#include "app/catalog/models.h"
#include "app/session/session.h"
#include "app/support/paths.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

std::string Session::why_not_open_point() const {
  if (studies_.open_studies().shown(selection_.study) == nullptr) return "No study is shown.";
  if (selection_.study.point < 0) return "No point of the study is selected.";
  if (point_due_ || point_to_run_) return "The point's run is being prepared.";
  return studies_.knows_point() ? studies_.open_studies().run.why_not : "";
}

void Session::open_study_model() {
  const MeasuredPoint* point = studies_.point();
  if (point == nullptr) usage_error("study", "no point is selected");
  open_model(model_folder(point->model));
}

void Session::open_study_point() {
  if (const std::string why = why_not_open_point(); !why.empty()) usage_error("study", why);
  point_due_ = true;
}

void Session::go_on_with_point() {
  if (point_due_ && selection_.study.point < 0) point_due_ = false;  // another study was put on show meanwhile
  if (point_due_ && studies_.knows_point()) {
    point_due_ = false;
    if (const std::string why = studies_.open_studies().run.why_not; !why.empty()) {
      messages_.add_banner({.kind = Banner::Kind::warning, .text = why});
    } else {
      prepare_point_run();
    }
  }
  begin_point_run();
}

void Session::prepare_point_run() {
  const PointSources sources = *studies_.sources();
  if (!sources.trace.empty()) return open_trace(sources.trace);
  const std::string model = engine_.model_path(), heads = (needed_state_folder() / "heads").string();
  files_.in_background("open a point", [this, point = *studies_.point(), sources, model, heads]() -> Worker::Finish {
    auto run = std::make_shared<PointToRun>(prepare_point(point, sources, model, heads));
    return [this, run, model] {
      if (model != engine_.model_path() || run_in_progress()) return;  // something else was begun meanwhile
      std::vector<std::string> wanted;
      for (const GateFacts& gate : run->gates) {
        const auto same = [&](const GateFacts& known) { return known.gate.path == gate.gate.path; };
        if (std::ranges::none_of(gates_.found(), same)) gates_.add(gate);
        wanted.push_back(gate.gate.path.string());
      }
      // First the policy: a model that is loaded under another one brings that one's gate with it.
      next_run_.set_policy(PolicySpec::parse(run->point.policy));
      point_to_run_ = std::move(*run);
      // Those gates and no others: some change the attention of every policy.
      if (wanted == engine_.gates_to_load()) return;  // poll() begins
      engine_.set_gates(wanted);
      engine_.load(model);
    };
  });
}

// Once the engine has read the gates; not if the model could not be loaded.
void Session::begin_point_run() {
  if (!point_to_run_ || engine_.state() == EngineState::loading || engine_.state() == EngineState::starting) return;
  if (engine_.state() != EngineState::ready || run_in_progress()) return point_to_run_.reset();
  const PointToRun run = *std::exchange(point_to_run_, std::nullopt);
  next_run_.set_raw(true);
  next_run_.set_prompt(run.text);
  RunRequest request = next_run_.request();
  request.messages.clear();
  request.chat = {};
  request.stop.clear();
  request.prompt_ids = run.ids;
  request.policy = PolicySpec::parse(run.point.policy);
  request.max_tokens = 0;
  request.stop_at_eos = false;
  request.chunk = run.point.chunk;
  try {
    start({.request = request, .by_text = false}, RunList::Place::a);
    point_run_.emplace(runs_.newest_begun(), run.point);
  } catch (const Error& error) {  // nobody called who could be told
    messages_.add_banner({.kind = Banner::Kind::error, .text = error.what()});
  }
}

void Session::compare_with_study() {
  const RunEntry* run = find_run(runs_.newest_begun());
  if (!run || !point_run_ || point_run_->first != run->id || run->run->status != RunStatus::complete) return;
  messages_.notify(kvscope::app::compare_with_study(point_run_->second, *run->run));
}

}  // namespace kvscope::app
