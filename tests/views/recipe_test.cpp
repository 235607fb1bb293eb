#include "views/figure/recipe.h"

#include <catch2/catch.hpp>

#include "engine/core/support/error.h"
#include "engine/core/support/json_file.h"
#include "tests/support/random_run.h"
#include "tests/views/view_support.h"
#include "views/figure/export.h"
#include "views/figure/tex_include.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

FigureRecipe parse(const char* text) { return parse_recipe(nlohmann::json::parse(text), "recipe.json"); }

template <std::size_t I>
void check_name() {
  const FigureOptions options(std::in_place_index<I>);
  const FigureRecipe recipe = parse_recipe({{"figure", figure_name(options)}}, "recipe.json");
  CHECK(recipe.options == options);
  if constexpr (I + 1 < std::variant_size_v<FigureOptions>) check_name<I + 1>();
}

}  // namespace

TEST_CASE("every figure is found by its name, as it is where nothing else is said") { check_name<0>(); }

TEST_CASE("a recipe read from what was written is the same recipe") {
  for (const FigurePreset& preset : figure_presets()) {
    FigureRecipe recipe = preset.recipe;
    (recipe.reads_study() ? recipe.studies : recipe.traces) = {"a.h5", "b.h5"};
    recipe.width_mm = 80;
    const std::string once = to_json(recipe).dump();
    const FigureRecipe again = parse_recipe(nlohmann::json::parse(once), "recipe.json");
    CHECK(to_json(again).dump() == once);
    CHECK(again.options == recipe.options);
    CHECK(figure_name(again.options) == figure_name(recipe.options));
  }
}

TEST_CASE("keys change what they name and nothing else") {
  const FigureRecipe recipe = parse(
      R"({"figure":"layer_head_map","trace":"t.h5","metric":"recall","q":17,"venue":"icml:column","aggregate":"max","fit":true})");
  const auto& map = std::get<LayerHeadMapOptions>(recipe.options);
  CHECK(recipe.traces == std::vector<std::string>{"t.h5"});
  CHECK(map.metric == Metric::recall);
  CHECK(map.q == 17);
  CHECK(map.aggregate == Aggregate::max);
  CHECK(map.fit);
  CHECK(map.values);
  CHECK(recipe.style().width == Approx(3.25 * 72));
}

TEST_CASE("a preset's keys can be overridden") {
  const FigureRecipe recipe = parse(R"({"preset":"kvpop-fig6","count":20})");
  CHECK(figure_name(recipe.options) == "token_strip");
  CHECK(std::get<TokenStripOptions>(recipe.options).count == 20);
  CHECK(recipe.style().width == Approx(5.5 * 72));
  CHECK(parse(R"({"preset":"kvpop-fig6","width_mm":100})").style().width == Approx(100 / 25.4 * 72));
}

TEST_CASE("what a recipe must not say is refused with what exists") {
  const auto [text, found, expected] = GENERATE(table<const char*, const char*, const char*>({
      {R"({"figure":"pie"})", "pie", "layer_head_map, token_strip, timeline"},
      {R"({"figure":"study_lines","y":[]})", "y", "at least one"},
      {R"({"figure":"study_lines","where":[1]})", "where", "list of texts"},
      {R"({"figure":"study_lines","interval":"box"})", "box", "none, whiskers, band"},
      {R"({"figure":"study_bars","columns":9})", "columns", "0 to 8"},
      {R"({"figure":"column_spread","lo":1,"hi":1})", "hi", "more than lo"},
      {R"({"figure":"map_panels","panels":"ratio"})", "ratio", "difference, spread"},
      {R"({"trace":"a.h5"})", "missing", "layer_head_map, token_strip, timeline"},
      {R"({"figure":"timeline","metric":"density"})", "metric", "kv_head, layer"},
      {R"({"figure":"layer_head_map","metrik":"density"})", "metrik", "metric"},
      {R"({"figure":"layer_head_map","metric":"goodness"})", "goodness", "density, evict_ratio"},
      {R"({"figure":"layer_head_map","aggregate":"mode"})", "mode", "median, mean, min, max"},
      {R"({"figure":"layer_head_map","colormap":"jet"})", "jet", "viridis"},
      {R"({"figure":"layer_head_map","venue":"nature"})", "nature", "neurips"},
      {R"({"figure":"layer_head_map","lo":1,"hi":0})", "hi", "more than lo"},
      {R"({"figure":"token_strip","count":0})", "count", "1 to 1048576"},
      {R"({"figure":"token_strip","width_mm":2})", "width_mm", "15 to 2000"},
      {R"({"figure":"token_strip","dpi":1e6})", "dpi", "36 to 2400"},
      {R"({"figure":"token_strip","q":"last"})", "q", ""},
      {R"({"figure":"token_strip","traces":"a.h5"})", "traces", "list"},
      {R"({"preset":"kvpop-fig99"})", "kvpop-fig99", "kvpop-fig6, kvpop-fig7, kvpop-fig8"},
      {R"([1])", "", "figure"},
  }));
  INFO(text);
  CHECK_THROWS_AS(parse(text), Error);
  CHECK_THROWS_WITH(parse(text), Catch::Contains(found) && Catch::Contains(expected));
}

TEST_CASE("an exported figure has its numbers and its recipe beside it, and the recipe makes it again byte for byte") {
  const TemporaryFolder folder;
  const RunRecord run = random_run(21), other = random_run(22);
  const RunRecord* both[] = {&run, &other};
  const char* extension = GENERATE(".pdf", ".svg", ".png");
  for (const FigurePreset& preset : figure_presets()) {
    INFO(preset.name);
    const auto first = folder / ("first" + std::string(extension)),
               second = folder / ("second" + std::string(extension));
    const std::span runs(both, std::max(1, preset.least_runs));
    const FigureRecipe recipe = with_attention(preset.recipe, run);
    const auto written = export_figure(build_any(recipe, runs), recipe, first, {.replace = true});
    REQUIRE(written.size() == 4);
    const std::string tex = read_file(folder / "first.tex", 1u << 20);
    CHECK_THAT(tex, Catch::Contains("]{first}") && Catch::Contains("\\label{fig:first}"));
    const FigureRecipe again = parse_recipe(read_json(folder / "first.json"), "first.json");
    export_figure(build_any(again, runs), again, second, {.replace = true});
    for (const char* part : {extension, ".figure.csv", ".json"}) {
      CHECK(read_file(folder / ("first" + std::string(part)), 1u << 28) ==
            read_file(folder / ("second" + std::string(part)), 1u << 28));
    }
  }
}

TEST_CASE("one text stands for a list of one, in y and where") {
  const FigureRecipe recipe = parse(R"({"preset":"wgkv-fig7","study":"s.h5","y":"recall","where":"item=needle"})");
  const auto& lines = std::get<StudyLinesOptions>(recipe.options);
  CHECK(recipe.reads_study());
  CHECK(recipe.studies == std::vector<std::string>{"s.h5"});
  CHECK(lines.pick.y == std::vector<std::string>{"recall"});
  CHECK(lines.pick.where == std::vector<std::string>{"item=needle"});
  CHECK(lines.pick.panel == "item");
}

TEST_CASE("a figure of a study is not made of runs, nor one of runs of a study") {
  const RunRecord run = random_run(21);
  const RunRecord* runs[] = {&run};
  CHECK_THROWS_WITH(build_figure(preset_recipe("spkv-fig3"), runs), Catch::Contains("a study"));
  CHECK_THROWS_WITH(build_figure(preset_recipe("spkv-fig4"), preset_study()), Catch::Contains("expected runs"));
}

TEST_CASE("LaTeX gets a caption without a character that it would stumble over") {
  CHECK(tex_text("a_b & 50 % of $x^2 {y} \\ ~ #1") ==
        "a\\_b \\& 50 \\% of \\$x\\textasciicircum{}2 \\{y\\} \\textbackslash{} \\textasciitilde{} \\#1");
  CHECK(tex_text("30 × 3, B − A ≤ 1") == "30 $\\times$ 3, B $-$ A $\\le$ 1");
  const std::string tex = tex_include("plots/fig 6.pdf", 234, "Recall.");
  CHECK_THAT(tex, Catch::Contains("\\includegraphics[width=234bp]{fig 6}") && Catch::Contains("\\caption{Recall.}"));
}

TEST_CASE(
    "LaTeX gets the name of a figure's file so that it reads every character of it, or the name to rename it to") {
  const auto lines = [](const std::string& file) { return tex_include(file, 234, "Recall."); };
  const auto has = [&](const std::string& file, const std::string& text) {
    CAPTURE(file, lines(file));
    CHECK(lines(file).find(text) != std::string::npos);
  };
  has("fig 50% a_b#1.pdf", "\\begingroup\\catcode37=12 \\catcode35=12 \\catcode95=12 \n");
  has("fig 50% a_b#1.pdf", "  \\includegraphics[width=234bp]{fig 50% a_b#1}\\endgroup\n");
  has("fig 50% a_b#1.pdf", "\\label{fig:fig-50--a_b-1}\n");
  for (const char c : std::string("%#$&~^_")) {
    const std::string stem = std::string("a") + c + "b";
    has(stem + ".pdf", "\\catcode" + std::to_string(static_cast<int>(c)) + "=12 ");
    has(stem + ".pdf", "{" + stem + "}\\endgroup\n");
  }
  for (const char* stem : {"a{b", "a}b", "a\\b", "a\"b", "|ab", "a\nb", "a  b", " ab", "ab "}) {
    has(std::string(stem) + ".pdf", "% TeX cannot read the figure's name: rename the file to this one\n");
    CHECK(lines(std::string(stem) + ".pdf").find("begingroup") == std::string::npos);
    CHECK(lines(std::string(stem) + ".pdf").find(stem) == std::string::npos);
  }
  CHECK(lines("plain-1.pdf").find("catcode") == std::string::npos);
}

TEST_CASE("the recipe beside a figure carries its caption and its definition") {
  const TemporaryFolder folder;
  const RunRecord run = random_run(21);
  const RunRecord* runs[] = {&run};
  const FigureRecipe recipe = preset_recipe("spkv-fig4");
  export_figure(build_figure(recipe, runs), recipe, folder / "map.svg");
  const auto json = read_json(folder / "map.json");
  CHECK_THAT(json.at("caption").get<std::string>(), Catch::Contains("random-model"));
  CHECK_THAT(json.at("definition").get<std::string>(), Catch::Contains("density: "));
}

TEST_CASE("a figure is not exported under a name that is none, nor into a folder that is not there") {
  const TemporaryFolder folder;
  const RunRecord run = random_run(21);
  const RunRecord* runs[] = {&run};
  const FigureRecipe recipe = preset_recipe("spkv-fig4");
  const BuiltFigure built = build_figure(recipe, runs);
  CHECK_THROWS_AS(export_figure(built, recipe, folder / "map.gif"), Error);
  CHECK_THROWS_AS(export_figure(built, recipe, folder / "absent/map.svg"), Error);
  CHECK_FALSE(std::filesystem::exists(folder / "map.figure.csv"));
}
