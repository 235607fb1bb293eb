// Figures that follow from a formula, a fit, or from columns in a stack: each number counted here once more.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/core/support/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/study_literal.h"
#include "tests/views/figure_column.h"
#include "tests/views/view_support.h"
#include "views/figure/decode_flops_figure.h"
#include "views/figure/plot.h"
#include "views/figure/recipe.h"
#include "views/figure/scaling_fit_figure.h"
#include "views/figure/stacked_bars.h"
#include "views/figure/study_bars_figure.h"

using namespace kvscope;
using namespace kvscope::views;
using namespace kvscope::test;

namespace {

/// The row of a model of that many layers and that width, `sparse` or not.
std::size_t row_of(const StudyTable& table, double layers, double width, bool sparse) {
  const auto &l = table.numbers("layers", ""), &w = table.numbers("width", "");
  for (std::size_t i = 0; i < l.size(); ++i) {
    if (l[i] == layers && w[i] == width && (i >= l.size() / 2) == sparse) return i;
  }
  FAIL("no such model");
  return 0;
}

StudyTable times() {
  return study_of(
      "method,prompt_tokens,attention_ms[ms],rest_ms[ms],cache_bytes[bytes]\n"
      "full,1024,1,3,10\nfull,2048,2,3,20\nwg-kv,1024,0.5,3,5\nwg-kv,2048,,3,10\n");
}

StudyBarsOptions stacked() {
  StudyBarsOptions o;
  o.pick = {.x = "prompt_tokens", .y = {"attention_ms+rest_ms"}, .series = "method", .dense = ""};
  return o;
}

}  // namespace

TEST_CASE("a decoded token costs two FLOPs a parameter, and two a layer, key and channel of attention") {
  const StudyTable table = decode_flops({});
  const auto &attention = table.numbers("attention_flops", ""), &total = table.numbers("total_flops", "");
  const std::size_t llama = row_of(table, 32, 4096, false);
  CHECK(attention[llama] == 2.0 * 32 * 131072 * 4096);
  CHECK(total[llama] == Approx(2 * 6.98e9 + attention[llama]).epsilon(1e-3));
  CHECK(attention[row_of(table, 32, 4096, true)] == Approx(0.2 * attention[llama]));
  // What the figure is for: with a fifth of the keys a model of 7 billion costs less than one of 2.25 billion with all of them.
  CHECK(total[row_of(table, 32, 4096, true)] < total[row_of(table, 26, 2560, false)]);
  CHECK(decode_flops({.context = 1000}).numbers("attention_flops", "")[llama] == 2.0 * 32 * 1000 * 4096);
  const BuiltFigure built = decode_flops_figure({}, {});
  CHECK(built.figure.panels.size() == 2);
  CHECK(built.data.n_rows() == 4 * 13);
  CHECK_THAT(built.caption, Catch::Contains("131072 cached"));
}

TEST_CASE("a fit of scaling has a law for each family, from the models it may see") {
  ScalingFitOptions o;
  o.fit = {"train_flops<1e23"};
  const BuiltFigure built = scaling_fit_figure(scaling_study(), o, {});
  const auto& fitted = column<std::int64_t>(built.data, "fitted");
  CHECK(std::ranges::count(fitted, 0) == 4);  // of each family the largest two
  const auto families = scaling_fits(scaling_study(), o);
  REQUIRE(families.size() == 2);
  CHECK(families[0].name == "full");
  CHECK(column<double>(built.data, "law")[0] == families[0].law.at(1e18));
  CHECK_THAT(built.caption, Catch::Contains("full: ") && Catch::Contains("the 2 that the fit has not seen"));
  o.fit = {"train_flops<1e20"};
  CHECK_THAT(error_of([&] { scaling_fits(scaling_study(), o); }), Catch::Contains("2 amounts of compute"));
}

TEST_CASE("without a column of compute a fit takes six FLOPs a parameter and token") {
  const StudyTable study =
      study_of("family,params,tokens,nll\na,1e8,1e9,4\na,2e8,2e9,3.5\na,4e8,4e9,3.2\na,8e8,8e9,3.1\n", kTrainingStudy);
  CHECK(scaling_fits(study, {})[0].points[0].x == Approx(6e17));
  CHECK_THAT(error_of([] { scaling_fits(study_of("family,nll\na,1\n"), {}); }), Catch::Contains("train_flops"));
}

TEST_CASE("the presets of WG-KV measure the cache by its size, and by density where a study has nothing else") {
  const std::string rows = ",0.5,64,0.25,0.1,0.9,12,40\n", name = GENERATE("7", "10", "11", "12", "16");
  CAPTURE(name);
  const StudyTable both = study_of(
      "item,method,policy,curve,source,density,window,cache_size,loss_output,accuracy,"
      "overflows,triggers\nneedle,wg-kv,wg-kv,a,s" +
      rows);
  const StudyTable old = study_of(
      "item,method,policy,curve,source,density,loss_output,accuracy,triggers\n"
      "needle,wg-kv,wg-kv,a,s,0.5,0.1,0.9,40\n");
  const FigureRecipe recipe = preset_recipe("wgkv-fig" + name);
  if (const auto* lines = std::get_if<StudyLinesOptions>(&recipe.options)) {
    CHECK(resolved(both, lines->pick).x == "cache_size");
    CHECK(resolved(old, lines->pick).x == "density");
    return;
  }
  const StudyPick& pick = std::get<StudyBarsOptions>(recipe.options).pick;
  CHECK(resolved(both, pick).y == std::vector<std::string>{"accuracy", "cache_size", "overflows"});
  CHECK(resolved(old, pick).y == std::vector<std::string>{"accuracy", "density", "triggers"});
}

TEST_CASE("a stacked bar is the sum of its columns, and none where one of them is missing") {
  const BuiltFigure built = study_bars_figure(times(), stacked(), {});
  const auto& quantity = column<std::string>(built.data, "quantity");
  const auto& value = column<double>(built.data, "value");
  std::vector<double> sums, attention;
  for (std::size_t i = 0; i < value.size(); ++i) {
    (quantity[i] == "attention_ms" ? attention : sums).push_back(value[i]);
  }
  CHECK(sums == std::vector<double>{4, 5, 3.5});
  CHECK(attention == std::vector<double>{1, 2, 0.5});
  CHECK(built.figure.panels.size() == 1);
  CHECK_THAT(built.caption, Catch::Contains("full colour: attention; pale: rest"));
}

TEST_CASE("the pale part of a stacked bar begins where its first column ends") {
  const Figure figure = study_bars_figure(times(), stacked(), {}).figure;
  const double bottom = figure.panel("panel.0")->box.bottom();
  const Colour pale = with_alpha(FigureStyle{}.paper, 165);
  std::vector<double> shares;
  for (const Primitive& item : figure.items) {
    const auto* box = std::get_if<FillBox>(&item);
    if (box && box->colour == pale) shares.push_back((bottom - box->box.bottom()) / (bottom - box->box.y));
  }
  REQUIRE(shares.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(shares[i] == Approx(std::vector<double>{1 / 4.0, 2 / 5.0, 0.5 / 3.5}[i]));
}

TEST_CASE("a quantity that ends in a bar is left out where the study has none of its columns") {
  StudyBarsOptions o = stacked();
  o.pick.y = {"seconds|", "attention_s+rest_s|attention_ms+rest_ms|", "cache_bytes"};
  CHECK(resolved(times(), o.pick).y == std::vector<std::string>{"attention_ms+rest_ms", "cache_bytes"});
  CHECK(study_bars_figure(times(), o, {}).figure.panels.size() == 2);
  o.pick.y = {"seconds|"};
  CHECK_THAT(error_of([&] { study_bars_figure(times(), o, {}); }), Catch::Contains("no column"));
}
