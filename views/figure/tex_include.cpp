#include "views/figure/tex_include.h"

#include <filesystem>
#include <utility>

#include "engine/core/support/text.h"

namespace kvscope::views {
namespace {

constexpr std::pair<const char*, const char*> kCommands[] = {
    {"\\", "\\textbackslash{}"},
    {"&", "\\&"},
    {"%", "\\%"},
    {"$", "\\$"},
    {"#", "\\#"},
    {"_", "\\_"},
    {"{", "\\{"},
    {"}", "\\}"},
    {"~", "\\textasciitilde{}"},
    {"^", "\\textasciicircum{}"},
    {"<", "$<$"},
    {">", "$>$"},
    {"|", "$|$"},
    {"−", "$-$"},
    {"×", "$\\times$"},
    {"≤", "$\\le$"},
    {"≥", "$\\ge$"},
    {"·", "$\\cdot$"},
    {"–", "--"},
    {"…", "\\ldots{}"},
    {"±", "$\\pm$"},
    {"∈", "$\\in$"},
    {"Σ", "$\\Sigma$"},
    {"τ", "$\\tau$"},
    {"γ", "$\\gamma$"},
    {"λ", "$\\lambda$"},
    {"ρ", "$\\rho$"},
};

}  // namespace

std::string tex_text(const std::string& utf8) {
  std::string out;
  for (std::size_t at = 0; at < utf8.size();) {
    bool known = false;
    for (const auto& [from, to] : kCommands) {
      const std::size_t n = std::string_view(from).size();
      if (utf8.compare(at, n, from) != 0) continue;
      out += to, at += n, known = true;
      break;
    }
    if (!known) out += utf8[at++];
  }
  return out;
}

std::string tex_include(const std::string& file, double width_pt, const std::string& caption) {
  const std::string stem = std::filesystem::path(file).stem().string();
  std::string out = "% \\usepackage{graphicx}; of an SVG \\usepackage{svg} and \\includesvg\n";
  out += "\\begin{figure}\n  \\centering\n";
  out += "  \\includegraphics[width=" + number_text(width_pt, 6) + "bp]{" + stem + "}\n";
  out += "  \\caption{" + tex_text(caption) + "}\n";
  out += "  \\label{fig:" + stem + "}\n";
  return out + "\\end{figure}\n";
}

}  // namespace kvscope::views
