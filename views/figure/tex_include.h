#pragma once
// The lines that put a figure into a paper.

#include <string>

namespace kvscope::views {

/// A LaTeX figure environment of `file`, at `width_pt` points of 1/72 inch (TeX's bp), with the caption and the label
/// fig:NAME. The file is named without its ending, so that a figure exported as PDF and as PNG has one such file.
std::string tex_include(const std::string& file, double width_pt, const std::string& caption);
/// Text with LaTeX's special characters escaped, and those beyond ASCII that captions have as commands: pdfLaTeX has no
/// glyphs for them.
std::string tex_text(const std::string& utf8);

}  // namespace kvscope::views
