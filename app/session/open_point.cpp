#include "app/session/open_point.h"

#include <algorithm>
#include <utility>

#include "app/catalog/models.h"
#include "app/session/asked_runs.h"
#include "app/session/session.h"
#include "app/support/paths.h"
#include "app/support/usage.h"
#include "engine/core/support/error.h"

namespace kvscope::app {

std::string OpenPoint::why_not() const {
  const Studies& studies = session_.studies();
  const views::StudyLook& look = session_.selection().study;
  if (studies.open_studies().shown(look) == nullptr) return "No study is shown.";
  if (look.point < 0) return "No point of the study is selected.";
  if (due_ || to_run_) return "The point's run is being prepared.";
  return studies.knows_point() ? studies.open_studies().run.why_not : "";
}

void OpenPoint::open_model() {
  const MeasuredPoint* point = session_.studies().point();
  if (point == nullptr) usage_error("study", "no point is selected");
  session_.model().open(model_folder(point->model));
}

void OpenPoint::open() {
  if (const std::string why = why_not(); !why.empty()) usage_error("study", why);
  due_ = true;
}

void OpenPoint::poll() {
  if (due_ && session_.selection().study.point < 0) due_ = false;  // another study was put on show meanwhile
  if (const Studies& studies = session_.studies(); due_ && studies.knows_point()) {
    due_ = false;
    if (const std::string why = studies.open_studies().run.why_not; !why.empty()) {
      session_.messages().add_banner({.kind = Banner::Kind::warning, .text = why});
    } else {
      prepare();
    }
  }
  begin();
}

void OpenPoint::prepare() {
  const PointSources sources = *session_.studies().sources();
  if (!sources.trace.empty()) return session_.traces().open(sources.trace);
  const std::string model = session_.engine().model_path(), heads = (needed_state_folder() / "heads").string();
  const auto job = [this, point = *session_.studies().point(), sources, model, heads]() -> Worker::Finish {
    auto run = std::make_shared<PointToRun>(prepare_point(point, sources, model, heads));
    return [this, run, model] {
      EngineLink& engine = session_.engine();
      if (model != engine.model_path() || engine.run_in_progress()) return;  // something else was begun meanwhile
      ModelGates& gates = session_.policy().gates();
      std::vector<std::string> wanted;
      for (const GateFacts& gate : run->gates) {
        const auto same = [&](const GateFacts& known) { return known.gate.path == gate.gate.path; };
        if (std::ranges::none_of(gates.found(), same)) gates.add(gate);
        wanted.push_back(gate.gate.path.string());
      }
      // First the policy: a model that is loaded under another one brings that one's gate with it.
      session_.next_run().set_policy(PolicySpec::parse(run->point.policy));
      to_run_ = std::move(*run);
      // Those gates and no others: some change the attention of every policy.
      engine.reload_with(wanted);  // poll() begins
    };
  };
  session_.files().in_background("open a point", job);
}

// Once the engine has read the gates; not if the model could not be loaded.
void OpenPoint::begin() {
  const EngineLink& engine = session_.engine();
  if (!to_run_ || engine.is_loading()) return;
  if (engine.state() != EngineState::ready) return to_run_.reset();
  const PointToRun run = *std::exchange(to_run_, std::nullopt);
  session_.next_run().set_raw(true);
  session_.next_run().set_prompt(run.text);
  try {
    session_.start(asked_point(session_.next_run(), run), Runs::Place::a);
    run_.emplace(session_.runs().newest_begun(), run.point);
  } catch (const Error& error) {  // there is no caller to catch it
    session_.messages().add_banner({.kind = Banner::Kind::error, .text = error.what()});
  }
}

void OpenPoint::compare(const RunEntry& run) {
  if (!run_ || run_->first != run.id || run.run->status != RunStatus::complete) return;
  session_.messages().notify(compare_with_study(run_->second, *run.run));
}

}  // namespace kvscope::app
