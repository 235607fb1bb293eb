#include "views/figure/tex_include.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>
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

constexpr std::string_view kNoNames = "{}\\\"|";  // TeX reads no file name with one of these as it is

/// Characters that mean something to TeX and are plain ones in a file's name: "%" would begin a comment. As categories
/// they are plain before TeX reads the line, in any version of LaTeX.
std::string plain_categories(std::string_view stem) {
  std::string out;
  for (const char c : std::string_view("%#$&~^_")) {
    if (stem.find(c) != stem.npos) out += "\\catcode" + std::to_string(static_cast<int>(c)) + "=12 ";
  }
  return out;
}

/// Of blanks TeX reads one in place of several, and none at the ends.
bool is_readable(std::string_view stem) {
  const bool blanks = stem.starts_with(' ') || stem.ends_with(' ') || stem.find("  ") != stem.npos;
  return !blanks && stem.find_first_of(kNoNames) == stem.npos &&
         std::ranges::none_of(stem, [](unsigned char c) { return c < ' ' || c == 0x7f; });
}

/// Letters, digits and what labels have between them.
std::string label_of(std::string stem) {
  for (char& c : stem) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) == 0 && std::string_view("-_.:+").find(c) == std::string_view::npos) c = '-';
  }
  return stem;
}

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
  std::string out = "% \\usepackage{graphicx}; for an SVG \\usepackage{svg} and \\includesvg\n";
  out += "\\begin{figure}\n  \\centering\n";
  const std::string categories = is_readable(stem) ? plain_categories(stem) : "";
  const std::string line = "\\includegraphics[width=" + number_text(width_pt, 6) + "bp]{" +
                           (is_readable(stem) ? stem : label_of(stem)) + "}";
  if (!is_readable(stem)) out += "  % TeX cannot read the figure's name: rename the file to this one\n";
  out += categories.empty() ? "  " + line + "\n" : "  \\begingroup" + categories + "\n  " + line + "\\endgroup\n";
  out += "  \\caption{" + tex_text(caption) + "}\n";
  out += "  \\label{fig:" + label_of(stem) + "}\n";
  return out + "\\end{figure}\n";
}

}  // namespace kvscope::views
