// film.*: a run as it goes, as a GIF or a video.

#include <algorithm>
#include <filesystem>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/layouts.h"

namespace kvscope::app {
namespace {

constexpr int kUsualPictures = 120, kMostPictures = 5000;
constexpr int kUsualSpeed = 10, kMostSpeed = 50;  // pictures a second; GIF counts in hundredths of one

/// What is shown of run A, in about 120 pictures, unless the arguments say otherwise.
FilmPlan film_plan(const Session& session, const views::ViewList& views, const nlohmann::json& arguments) {
  const RunRecord& run = run_of(session);
  FilmPlan plan{.path = text_argument(arguments, "path")};
  const std::string ending = std::filesystem::path(plan.path).extension().string();
  if (ending != ".gif" && ending != ".mp4") bad_argument("path", "a file that ends in .gif or .mp4");
  if (has_argument(arguments, "view")) plan.view = view_argument(views, arguments, "view", true);
  const views::TokenSpan shown = views::shown_span(session.selection(), run.queries());
  const int last = run.queries() - 1;
  plan.from = integer_argument(arguments, "from", shown.begin);
  plan.to = integer_argument(arguments, "to", std::min(last, shown.end - 1));
  if (plan.from < 0 || plan.from > last) bad_argument("from", "a query of the run, 0 to " + std::to_string(last));
  if (plan.to < plan.from || plan.to > last)
    bad_argument("to", "a query from " + std::to_string(plan.from) + " to " + std::to_string(last));
  plan.step = integer_argument(arguments, "step", (plan.to - plan.from) / kUsualPictures + 1);
  if (plan.step < 1) bad_argument("step", "at least 1 query");
  if ((plan.to - plan.from) / plan.step >= kMostPictures)
    bad_argument("step", "at most " + std::to_string(kMostPictures) + " pictures");
  const int speed = integer_argument(arguments, "speed", kUsualSpeed);
  if (speed < 1 || speed > kMostSpeed)
    bad_argument("speed", "1 to " + std::to_string(kMostSpeed) + " pictures a second");
  plan.ms = 1000 / speed;
  return plan;
}

}  // namespace

void add_film_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  registry.add(
      {"film.record", "Record a film of the run", "File", "Shift+F12",
       takes(arg::path("path", "", "file.gif or .mp4"), arg::text("view", "the window", "view"),
             arg::number("from", "what is shown", "query"), arg::number("to", "what is shown", "query"),
             arg::number("step", "120 pictures", "queries"), arg::number("speed", "10", "pictures per second")),
       nullptr,
       [&session, &ui, &views](const nlohmann::json& arguments) {
         if (!ask_for_path(ui, arguments,
                           {.title = "Record a film of the run",
                            .command = "film.record",
                            .path = "run.gif",
                            .folder = session.files().save_folder(),
                            .hint = "run.gif, or run.mp4 with ffmpeg",
                            .save = true}))
           ui.film = film_plan(session, views, arguments);
       },
       [&session, &ui]() -> std::string {
         if (ui.film) return "A film is being recorded.";
         const bool has_run = session.runs().shown_a() && run_of(session).queries() > 0;
         return has_run ? "" : "There is no run to record.";
       }});
  registry.add({"film.stop", "Stop recording and save the film", "File", "", takes(),
                [&ui] { return ui.film.has_value(); }, [&ui] { ui.film->stop = true; }});
}

}  // namespace kvscope::app
