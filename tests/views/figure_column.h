#pragma once
// A column of a figure's numbers by its name.

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "views/figure/figure.h"

namespace kvscope::test {

template <typename T>
const std::vector<T>& column(const views::FigureData& data, const std::string& name) {
  for (const views::FigureColumn& c : data.columns) {
    if (c.name == name) return std::get<std::vector<T>>(c.values);
  }
  FAIL("no column " << name);
  throw std::logic_error("unreachable");
}

}  // namespace kvscope::test
