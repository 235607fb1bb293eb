// figure.*, heads.*: what is on screen, for paper and for kernels.

#include <algorithm>
#include <optional>

#include "app/command/app_commands.h"
#include "app/command/command_arguments.h"
#include "app/command/head_export.h"
#include "app/command/layouts.h"
#include "app/command/picture_clipboard.h"
#include "app/support/paths.h"
#include "app/workspace/look_scope.h"
#include "engine/core/support/text.h"
#include "views/figure/export.h"
#include "views/figure/image_means.h"
#include "views/figure/recipe.h"

namespace kvscope::app {
namespace {

struct NamedFigure {
  std::string view, title;
  views::ViewFigure figure;
};

// What the named view shows, or the one that is meant without a name. A view goes by its id and by the name of its figure.
NamedFigure figure_on_screen(Session& session, UiState& ui, const views::ViewList& views,
                             const nlohmann::json& arguments) {
  views::ViewContext context{session.runs().shown_a(), session.runs().shown_b(), &session.selection(), nullptr};
  context.studies = &session.studies().open_studies();
  context.attention = &session.attention().asked();
  context.query_attention = &session.query_attention().asked();
  const views::ListedRuns listed = session.run_list().now();
  context.listed = &listed;
  const std::vector<views::ShownRun> set = session.runs().chosen();
  if (!set.empty()) context.set = &set;
  context.same_text = [&session](int n) { return session.runs().same_text(n); };
  const std::string wanted = has_argument(arguments, "view") ? text_argument(arguments, "view") : "";
  const auto figure_of = [&](const views::View& view) {
    const LookScope look(session.selection(), ui, view.id());
    return view.figure(context);
  };
  if (wanted.empty()) {
    for (const views::View* view : meant_views(ui, views)) {
      if (auto figure = figure_of(*view)) return {view->id(), view->title(), std::move(*figure)};
    }
  }
  std::string all;
  for (const auto& view : views) {
    auto figure = figure_of(*view);
    if (!figure) continue;
    // None on the screen has a figure: the first of the others that would stand in the main row.
    if (wanted.empty() ? view->place() == views::Place::main
                       : wanted == view->id() || wanted == views::figure_name(figure->options)) {
      return {view->id(), view->title(), std::move(*figure)};
    }
    all += (all.empty() ? "" : ", ") + view->id();
  }
  bad_argument("view", "one of " + all);
}

// The files that the runs were read from or saved to, and which of each they are; nothing unless every run has one,
// because a recipe with other runs than the figure's would make another figure.
void name_sources(const Session& session, const views::ViewFigure& figure, views::FigureRecipe& recipe) {
  recipe.run = 0;
  std::vector<int> runs;
  for (const auto& run : figure.runs) {
    const auto entry = std::ranges::find(session.runs().all(), run, &RunEntry::run);
    if (entry == session.runs().all().end() || entry->trace_path.empty()) return recipe.traces.clear();
    recipe.traces.push_back(entry->trace_path);
    runs.push_back(entry->trace_run);
  }
  if (std::ranges::count(runs, 0) < std::ssize(runs)) recipe.run = -1, recipe.runs = runs;
}

struct FigureToMake {
  views::FigureRecipe recipe;
  std::vector<std::shared_ptr<const RunRecord>> runs;
  std::shared_ptr<const StudyTable> study;  // in place of runs
  std::string view, view_title;
  std::string name;  // of the preset, or the view

  std::vector<std::filesystem::path> inputs() const {
    const auto& files = study ? recipe.studies : recipe.traces;
    return {files.begin(), files.end()};
  }
  views::BuiltFigure build() const {
    if (study) return views::build_figure(recipe, *study);
    std::vector<const RunRecord*> pointers;
    for (const auto& run : runs) pointers.push_back(run.get());
    return views::build_figure(recipe, pointers);
  }
};

/// A preset over runs is of those that were chosen, as the views are; one of two runs is of A and B, others are of A.
std::vector<std::shared_ptr<const RunRecord>> runs_of_preset(Session& session, const views::FigureRecipe& recipe) {
  const bool over_runs = std::holds_alternative<views::LayerHeadMapOptions>(recipe.options) ||
                         std::holds_alternative<views::MetricByLayerOptions>(recipe.options);
  std::vector<std::shared_ptr<const RunRecord>> runs;
  if (over_runs) {
    for (const views::ShownRun& run : session.runs().chosen()) runs.push_back(run.run);
  }
  if (runs.empty()) runs.push_back(session.runs().shown_a()->run);
  const views::ShownRun* b = session.runs().shown_b();
  if (b != nullptr && std::holds_alternative<views::AnswerDifferenceOptions>(recipe.options)) runs.push_back(b->run);
  return runs;
}

// What is on screen, or a preset of run A or of the chosen runs, for the venue that was asked for.
FigureToMake figure_to_make(Session& session, UiState& ui, const views::ViewList& views,
                            const nlohmann::json& arguments) {
  NamedFigure shown = figure_on_screen(session, ui, views, arguments);
  views::FigureRecipe recipe;
  recipe.options = shown.figure.options;
  std::string name = shown.view;
  if (has_argument(arguments, "preset")) {
    name = text_argument(arguments, "preset");
    recipe = views::preset_recipe(name);
    if (!shown.figure.study && !recipe.reads_study()) shown.figure.runs = runs_of_preset(session, recipe);
  }
  if (has_argument(arguments, "venue")) recipe.venue = text_argument(arguments, "venue");
  if (shown.figure.study) {
    recipe.studies = {shown.figure.study_path};
    return {std::move(recipe), {}, std::move(shown.figure.study), std::move(shown.view), std::move(shown.title),
            std::move(name)};
  }
  name_sources(session, shown.figure, recipe);
  return {std::move(recipe),     std::move(shown.figure.runs), nullptr,
          std::move(shown.view), std::move(shown.title),       std::move(name)};
}

void export_figure(Session& session, UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  const FigureToMake figure = figure_to_make(session, ui, views, arguments);
  if (!has_argument(arguments, "path")) ui.figure_size.clear(), ui.figure_preview.reset();
  nlohmann::json asked = arguments;  // the dialog is about this view, wherever the mouse goes
  if (!has_argument(asked, "view")) asked["view"] = figure.view;
  if (ask_for_path(ui, asked,
                   {.title = "Export figure: " + figure.view_title,
                    .command = "figure.export",
                    .path = figure.view + ".pdf",
                    .folder = session.files().save_folder(),
                    .hint = ".pdf, .svg or .png; also writes data (.figure.csv), recipe (.json) and .tex",
                    .save = true,
                    .figure = true,
                    .shown = figure.view,
                    .shown_title = figure.view_title}))
    return;
  const std::string path = text_argument(arguments, "path");
  const views::ExportOptions options{.replace = flag_argument(arguments, "overwrite", false),
                                     .inputs = figure.inputs()};
  session.files().in_background("export " + path, [&session, figure, path, options]() -> Worker::Finish {
    const auto written = views::export_figure(figure.build(), figure.recipe, path, options);
    return [&session, written] {
      session.files().remember_place(written.front().string());
      session.messages().notify("exported " + written.front().string() + " (+ figure.csv, json, tex)");
    };
  });
}

// "82.6 x 61 mm = 3.25 x 2.4 in", as it will stand on paper.
std::string size_in_words(const views::Figure& figure) {
  const auto both = [&](double unit, int digits) {
    return number_text(figure.width / unit, digits) + " × " + number_text(figure.height / unit, digits);
  };
  return both(views::kPointsPerMm, 4) + " mm = " + both(72, 3) + " in";
}

void measure_figure(Session& session, UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  const FigureToMake figure = figure_to_make(session, ui, views, arguments);
  session.files().in_background("measure " + figure.view, [&session, &ui, figure]() -> Worker::Finish {
    // On paper a picture of a long run has millions of cells: what the window makes of them must not take a frame's time.
    const auto built =
        std::make_shared<const views::Figure>(views::for_pixels(figure.build().figure, views::kPreviewPixels));
    return [&session, &ui, built, words = size_in_words(*built),
            name = figure.name == figure.view ? figure.view_title : figure.name] {
      ui.figure_size = words;
      ui.figure_preview = built;
      session.messages().notify(name + " is " + words);
    };
  });
}

void copy_figure(Session& session, UiState& ui, const views::ViewList& views, const nlohmann::json& arguments) {
  const FigureToMake figure = figure_to_make(session, ui, views, arguments);
  const auto png = needed_state_folder() / "clipboard.png";
  session.files().in_background("copy " + figure.view, [&session, figure, png]() -> Worker::Finish {
    std::string said = "copied " + figure.view + " as a picture";
    try {
      std::filesystem::create_directories(png.parent_path());
      views::export_figure(figure.build(), figure.recipe, png, {.data = false, .recipe = false, .replace = true});
      copy_png(png);
    } catch (
        const std::exception& error) {  // there is no file that somebody would miss: a notice, which ends by itself
      said = error.what();
    }
    return [&session, said] { session.messages().notify(said); };
  });
}

std::optional<int> count_argument(const nlohmann::json& arguments, const char* key) {
  if (!has_argument(arguments, key)) return std::nullopt;
  return integer_argument(arguments, key, 0);
}

HeadQuestion head_question(const nlohmann::json& arguments) {
  HeadQuestion question;
  if (has_argument(arguments, "strategy")) {
    const std::string name = text_argument(arguments, "strategy");
    const auto found = std::find(std::begin(kHeadStrategies), std::end(kHeadStrategies), name);
    if (found == std::end(kHeadStrategies)) bad_argument("strategy", "a, b, c or d");
    question.strategy = static_cast<HeadStrategy>(found - std::begin(kHeadStrategies));
  }
  if (has_argument(arguments, "share")) question.share = number_argument(arguments, "share");
  question.count = count_argument(arguments, "count");
  if (const auto seed = count_argument(arguments, "seed")) {
    if (*seed < 0) bad_argument("seed", "a whole number from 0");
    question.seed = static_cast<std::uint64_t>(*seed);
  }
  return question;
}

constexpr std::string_view kHeadBoard = "head_board";

// The heads are chosen before a path is asked for: one pass over one run's lifetimes, and whoever says where to sees
// what will be written, or why nothing can be.
void export_heads(Session& session, UiState& ui, const nlohmann::json& arguments) {
  // Whoever sees the board means its heads, unless others are asked for.
  const bool board = ui.maximised.empty() ? has_window(ui.arrangement, kHeadBoard) : ui.maximised == kHeadBoard;
  const auto asks_for = [&](const char* name) { return has_argument(arguments, name); };
  if (board && !asks_for("strategy") && !asks_for("share") && !asks_for("count") && !asks_for("seed"))
    return export_board(session, ui, arguments);
  const auto run = session.runs().shown_a()->run;
  export_heads_of_a(session, ui, arguments, "heads.export", choose_heads({run.get()}, head_question(arguments)),
                    local_sizes({run.get()}, {}, {}));
}

}  // namespace

void add_export_commands(CommandRegistry& registry, Session& session, UiState& ui, const views::ViewList& views) {
  const auto has_run = [&session] { return session.runs().shown_a() != nullptr; };
  const auto has_figure = [&session] {
    return session.runs().shown_a() || session.studies().open_studies().shown(session.selection().study);
  };
  registry.add({"figure.export", "Export a figure (PDF, SVG, PNG)", "File", "Ctrl+E",
                takes(arg::path("path"), arg::text("view", "", "name of a view or figure"),
                      arg::text("preset", "", "name"), arg::text("venue", "", "name"), arg::flag("overwrite")),
                has_figure, [&session, &ui, &views](const nlohmann::json& arguments) {
                  return export_figure(session, ui, views, arguments);
                }});
  registry.add({"figure.copy", "Copy a figure as a picture", "File", "",
                takes(arg::text("view", "", "name of a view or figure"), arg::text("preset", "", "name"),
                      arg::text("venue", "", "name")),
                has_figure, [&session, &ui, &views](const nlohmann::json& arguments) {
                  copy_figure(session, ui, views, arguments);
                }});
  registry.add({"figure.measure", "Show the printed size of a figure", "File", "",
                takes(arg::text("view", "", "name of a view or figure"), arg::text("preset", "", "name"),
                      arg::text("venue", "", "name")),
                has_figure, [&session, &ui, &views](const nlohmann::json& arguments) {
                  measure_figure(session, ui, views, arguments);
                }});
  registry.add({"heads.export", "Export the heads of a hybrid (DuoAttention)", "File", "Ctrl+H",
                head_export_arguments(takes(arg::choice("strategy", {"a", "b", "c", "d"}), arg::number("share", "0.25"),
                                            arg::number("count"), arg::number("seed"))),
                has_run,
                [&session, &ui](const nlohmann::json& arguments) { return export_heads(session, ui, arguments); }});
}

}  // namespace kvscope::app
