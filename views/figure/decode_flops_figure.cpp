#include "views/figure/decode_flops_figure.h"

#include "engine/core/support/text.h"
#include "views/figure/study_lines_figure.h"

namespace kvscope::views {
namespace {

struct PublishedModel {
  double tokens;  // of its training, in billions: 160 for each parameter outside the embeddings
  int layers, width;
};
constexpr PublishedModel kModels[] = {{7.71, 7, 640},     {10.83, 8, 768},    {14.88, 11, 768},   {24.33, 10, 1024},
                                      {34.07, 14, 1024},  {52.86, 14, 1280},  {81.17, 15, 1536},  {113.64, 21, 1536},
                                      {168.48, 21, 1920}, {253.99, 23, 2304}, {359.91, 26, 2560}, {1116.73, 32, 4096},
                                      {1141.68, 38, 3840}};
constexpr double kTokensPerParameter = 160;

}  // namespace

StudyTable decode_flops(const DecodeFlopsOptions& o) {
  StudyColumn series{.name = "series", .units = "", .meaning = "", .is_text = true},
      parameters{.name = "parameters", .units = "", .meaning = ""},
      layers{.name = "layers", .units = "", .meaning = ""}, width{.name = "width", .units = "", .meaning = ""},
      attention{.name = "attention_flops", .units = "", .meaning = "2 layers · keys · width"},
      total{.name = "total_flops", .units = "", .meaning = "2 parameters + those of attention"};
  for (const double share : {1.0, o.share}) {
    for (const PublishedModel& model : kModels) {
      const double n = model.tokens * 1e9 / kTokensPerParameter;
      const double of_attention = 2.0 * model.layers * model.width * share * o.context;
      series.texts.push_back(share == 1 ? "full attention" : number_text(100 * share, 3) + " % of the keys");
      parameters.numbers.push_back(n), layers.numbers.push_back(model.layers), width.numbers.push_back(model.width);
      attention.numbers.push_back(of_attention), total.numbers.push_back(2 * n + of_attention);
    }
  }
  return {.kind = std::string(kBenchStudy),
          .request = "{}",
          .facts = "{}",
          .columns = {series, parameters, layers, width, attention, total}};
}

BuiltFigure decode_flops_figure(const DecodeFlopsOptions& options, const FigureStyle& style) {
  StudyLinesOptions lines;
  lines.pick = {.x = "parameters", .y = {"attention_flops", "total_flops"}, .series = "series", .dense = ""};
  lines.log_x = options.log_x, lines.log_y = options.log_y;
  BuiltFigure built = study_lines_figure(decode_flops(options), lines, style);
  built.caption += " For a token after " + number_text(options.context) +
                   " cached ones, as Kaplan et al. count; models of SP-KV's Tables 7 and 8, from 48 million to 7.1 "
                   "billion parameters outside the embeddings.";
  return built;
}

}  // namespace kvscope::views
